"""The comparison of training: equal models and batches in every library, a gate, and the memory that is foretold."""

from __future__ import annotations

import json
import math
from argparse import Namespace

import pytest
import torch
from benchmarks import compare, floors, ours_train
from benchmarks.batches import fixed_batch
from benchmarks.cases import IGNORED, MASK, TRAININGS
from benchmarks.contenders import PEERS_OF_SHAPE, training
from benchmarks.ours_models import trained
from benchmarks.peers import train as peers_train
from benchmarks.peers import transformers_models

from anyformer.model.transformer import build
from anyformer.operations import Shape

STAND_IN = """
from dataclasses import dataclass
import torch
from torch import nn
import torch.nn.functional as F

@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    bias: bool

class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.bias and config.dropout == 0.0
        self.table = nn.Embedding(config.vocab_size, config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size)

    def forward(self, tokens, targets=None):
        logits = self.head(self.table(tokens if targets is not None else tokens[:, -1:]))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""


def asked(shape: str, **given) -> Namespace:
    settings = {"shape": shape, "precision": "bf16", "compile": False, "tiny": True, "seed": 0, "threads": None}
    return Namespace(**settings | {"attention": None, "float_logits": False, "nanogpt": None} | given)


@pytest.mark.parametrize("shape", TRAININGS)
def test_transformers_has_the_same_parameters(shape):
    sizes = TRAININGS[shape]
    with torch.device("meta"):
        theirs = transformers_models.trained(sizes, "sdpa")
    ours = build(trained(sizes), device="meta")
    assert sum(each.numel() for each in theirs.parameters()) == sum(each.numel() for each in ours.parameters())


@pytest.mark.parametrize("shape", TRAININGS)
def test_ours_and_transformers_train_every_shape(shape, monkeypatch):
    monkeypatch.setattr(ours_train, "elsewhere", ours_train.plain)
    monkeypatch.setattr(ours_train, "keep_freed_memory", lambda: None)
    ours, theirs = ours_train.build(asked(shape)), peers_train.build(asked(shape, peer="transformers"))
    for worker in (ours, theirs):
        for _ in range(3):
            assert worker.unit() > 0
        losses = worker.outcome()["first_losses"]
        assert losses[-1] < losses[0]
        # Of random logits, over as many tokens: both count the same targets.
        assert losses[0] == pytest.approx(math.log(256), rel=0.2)
        json.dumps(worker.facts)
    assert ours.tokens == theirs.tokens == 2 * 32 * (2 if shape == "encoder-decoder" else 1)
    assert ours.facts["parameters"] == theirs.facts["parameters"]
    assert ours.facts["tensor_bytes"] == pytest.approx(ours.facts["foretold_bytes"], rel=0.05)


def test_the_gate_refuses_another_loss(monkeypatch):
    monkeypatch.setattr(ours_train, "elsewhere", lambda *_: ([5.0, 5.0, 5.0], 0))
    monkeypatch.setattr(ours_train, "keep_freed_memory", lambda: None)
    worker = ours_train.build(asked("small"))
    worker.unit()
    with pytest.raises(SystemExit, match="are not those of fp32"):
        worker.outcome()


def test_batches_predict_what_their_kind_predicts():
    causal = fixed_batch(TRAININGS["nanogpt"], 0)
    assert torch.equal(causal.tokens[:, 1:], causal.targets[:, :-1])
    masked = fixed_batch(TRAININGS["encoder"], 0)
    hidden = masked.tokens == MASK
    assert torch.equal(hidden, masked.targets != IGNORED)
    assert hidden.float().mean() == pytest.approx(0.15, abs=0.02)
    pair = fixed_batch(TRAININGS["encoder-decoder"], 0)
    assert torch.equal(pair.decoder[:, 1:], pair.targets[:, :-1])
    assert not pair.decoder[:, 0].any()


def test_nanogpt_is_read_from_the_file_that_is_given(tmp_path):
    path = tmp_path / "model.py"
    with pytest.raises(SystemExit, match="there is no file"):
        peers_train.module_of(path)
    path.write_text(STAND_IN)
    worker = peers_train.build(asked("nanogpt", peer="nanoGPT", nanogpt=str(path)))
    worker.unit()
    assert worker.facts["parameters"] == 2 * 256 * 64 + 256
    # Logits of every position: given no targets, it would give those of the last one alone.
    assert worker.outcome()["first_losses"][0] == pytest.approx(5.5, abs=0.7)


@pytest.mark.parametrize("shape", TRAININGS)
def test_contenders_of_a_shape(shape):
    commands = training(shape, "fp32", "x/model.py")
    assert next(iter(commands)) == "anyformer compiled"
    assert {name.split()[0] for name in commands} == {"anyformer", *PEERS_OF_SHAPE[shape]}
    assert all(command[-4:] == ["--shape", shape, "--precision", "fp32"] for command in commands.values())
    assert all(f"{peer} {mode}" in commands for peer in PEERS_OF_SHAPE[shape] for mode in ("compiled", "eager"))
    assert "nanoGPT eager" not in training("nanogpt", "bf16")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("training", "training"),
        ("training --fp32 --tuned-malloc", "training-fp32-tuned-malloc"),
        ("training --shape 110m", "training-110m"),
        ("training --against abc", "training-against-abc"),
        ("decoding", "decoding"),
        ("decoding --weights int4", "decoding-int4"),
        ("decoding --model gqa --weights int8", "decoding-gqa-batch1-context64-int8"),
        ("decoding --batch 16 --context 2048", "decoding-dense-batch16-context2048"),
    ],
)
def test_every_comparison_has_a_file_of_its_own(words, name, monkeypatch):
    monkeypatch.setattr("sys.argv", ["compare", *words.split()])
    assert compare.name_of(compare.parsed()) == name


@pytest.mark.parametrize("what", ["training", "decoding", "grid"])
def test_help_tells_every_default(what, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["compare", what, "--help"])
    with pytest.raises(SystemExit) as ended:
        compare.parsed()
    assert ended.value.code == 0
    assert "(default: " in capsys.readouterr().out


@pytest.mark.parametrize("shape", TRAININGS)
def test_products_of_a_step_are_those_that_the_sheet_counts(shape):
    sizes = TRAININGS[shape]
    source = sizes.length if sizes.kind == "t5" else 0
    counted = trained(sizes).trained_cost(Shape(batch=sizes.batch, length=sizes.length, source=source)).total_flops
    products = floors.step_products(sizes)
    flops = sum(times * 2 * count * rows * inner * columns for (count, rows, inner, columns), times in products.items())
    assert flops == counted.dense + counted.backward


def test_every_form_of_a_matrix_multiplies_by_it():
    W, x = torch.randn(64, 32), torch.randn(2, 32)
    assert len(floors.held()) >= len(floors.FORMS) - 1, "all but bf16 in an order of oneDNN's"
    for name, hold in floors.held().items():
        multiply, size = hold(W)
        torch.testing.assert_close(multiply(x).float(), x @ W.T, rtol=0.05, atol=2.0 if "4" in name else 0.3)
        assert 64 * 32 / 2 <= size <= 64 * 32 * 4
