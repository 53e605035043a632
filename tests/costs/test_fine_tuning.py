"""Fine-tuning by hand: adapters, formats, optimisers' states, and what is kept where only some weights learn."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner
from zoo import ZOO

import anyformer as af
from anyformer.cli import app
from anyformer.costs.activations import activations
from anyformer.costs.fine_tuning import BASES, FineTuning, Method, methods
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.saved import Learning
from anyformer.costs.saved.measured import saved_bytes
from anyformer.data import Bytes, Text
from anyformer.describe import UserError, to_toml
from anyformer.model.transformer import build
from anyformer.operations import Shape, Weight
from anyformer.plan import Plan
from anyformer.training import Run, train
from anyformer.tuning import SGD, Adafactor, AdamW, AdamW8bit, Lion, Lora, Muon, ScheduleFree, Tuning

H100 = hardware_of("h100")
FP32 = Plan(precision="fp32", attention="sdpa")
N = 8_030_261_248
"""Parameters of Llama 3 8B."""


def priced(name, length=2048, plan=None):
    architecture = af.architecture(name)
    plan = plan or Plan(precision="bf16")
    return {each.name: FineTuning(architecture, each, length, plan) for each in methods(architecture)}


@pytest.fixture(scope="module")
def llama():
    return priced("llama-3-8b")


def test_adapters_have_r_times_inputs_and_outputs():
    """Of Llama 3 8B: query and output 4096 x 4096, key and value 4096 x 1024, three of 4096 x 14336, in 32 layers."""
    tally = af.architecture("llama-3-8b").cost(Shape())
    sides = 2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336)
    assert Tuning(adapter=Lora(rank=16)).of(tally).parameters == 32 * 16 * sides == 41_943_040
    queries = Tuning(adapter=Lora(rank=4, targets=("*.query", "*.value.weight"))).of(tally)
    assert queries.parameters == 32 * 4 * ((4096 + 4096) + (4096 + 1024))
    assert len(queries.ranks) == 64
    with pytest.raises(UserError, match=r"'\*.qury' names no matrix of a layer; a path is 'decoder.layers.0.attention"):
        Tuning(adapter=Lora(targets=("*.qury",))).of(tally)
    with pytest.raises(UserError, match=r"tuning.frozen: 'encoder.\*' names no weight"):
        Tuning(frozen=("encoder.*",)).of(tally)


def test_experts_routers_tables_and_heads_have_no_adapter():
    tally = af.architecture("mixtral-8x7b").cost(Shape())
    ranks = Tuning(adapter=Lora()).of(tally).ranks
    assert len(ranks) == 32 * 4
    assert all(".attention." in path for path in ranks)


def test_four_bits_have_scales():
    """0.5 bytes, a byte of 64 for the scale, and 4 bytes of 64 x 256 for the scale of scales."""
    weight = Weight((4096, 14336), "column", "matrix")
    n = 4096 * 14336
    assert BASES["nf4"].matrix_bytes(weight) == n // 2 + n // 64 + 4 * n // (64 * 256)
    assert BASES["nf4"].matrix_bytes(Weight((3, 5), "column", "matrix", copies=2)) == 2 * (8 + 1 + 4)
    assert BASES["nf4"].bytes(Weight((64,), "replicate", "ones")) == 128
    assert BASES["int8"].matrix_bytes(weight) == n + 2 * 4096


def test_states_of_optimisers():
    matrix, table, gain = (
        Weight((4096, 1000), "column", "matrix"), Weight((512, 64), "column", "embedding"), Weight((64,), "replicate", "ones"),
    )  # fmt: skip
    n = 4096 * 1000
    assert AdamW().state_bytes(matrix) == 8 * n
    assert AdamW8bit().state_bytes(matrix) == 2 * n + 2 * 4 * n // 256
    assert AdamW8bit(block=2048).state_bytes(matrix * 3) == 3 * (2 * n + 2 * 4 * n // 2048)
    assert AdamW8bit().state_bytes(gain) == 8 * 64, "small ones stay in fp32"
    assert (SGD().state_bytes(matrix), SGD(momentum=0.0).state_bytes(matrix)) == (4 * n, 0)
    assert Lion().state_bytes(matrix) == 4 * n
    assert Adafactor().state_bytes(matrix) == 4 * (4096 + 1000)
    assert Adafactor().state_bytes(Weight((8, 100), "expert", "zeros", chosen=2)) == 4 * 800, "a stack of biases"
    assert Adafactor().state_bytes(Weight((8, 100, 200), "expert", "matrix", chosen=2)) == 4 * 8 * 300
    assert ScheduleFree().state_bytes(matrix) == 8 * n
    assert Muon().state_bytes(Weight((6, 4), "replicate", "matrix", linear=False)) == 8 * 24, "a table or a filter"
    assert (Muon().state_bytes(matrix), Muon().state_bytes(table), Muon().state_bytes(gain)) == (4 * n, 8 * 512 * 64, 8 * 64)


class Beside(nn.Module):
    """A linear map with a low-rank one beside it: what an adapter computes."""

    def __init__(self, frozen, rank):
        super().__init__()
        self.frozen = frozen
        self.down, self.up = nn.Linear(frozen.in_features, rank, bias=False), nn.Linear(rank, frozen.out_features, bias=False)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x)) * 2.0


def adapted(model, ranks):
    """The model with everything frozen but adapters of these ranks."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for path, rank in ranks.items():
        parent, _, name = path.removesuffix(".weight").rpartition(".")
        holder = model.get_submodule(parent)
        setattr(holder, name, Beside(getattr(holder, name), rank))
    return model.train()


def declared(architecture, learning):
    found = activations(architecture, Shape(batch=2, length=11), FP32, loss=False, learning=learning)
    return found.saved + found.loss


def measured(model):
    tokens = model.architecture.embedding.example(2, 11)
    return saved_bytes(model, lambda: model(tokens))


@pytest.mark.parametrize("name", ["llama", "latent"])
@pytest.mark.parametrize("targets", [("*",), ("*.output",)])
def test_what_adapters_keep_is_what_autograd_keeps(name, targets):
    """To the byte."""
    architecture = ZOO[name]
    ranks = Tuning(adapter=Lora(rank=3, targets=targets)).of(architecture.cost(Shape())).ranks
    found = measured(adapted(build(architecture, FP32), ranks))
    said = declared(architecture, Learning(frozenset(), ranks))
    everything = declared(architecture, None)
    assert said == found < everything


def test_layers_below_all_that_learns_keep_nothing():
    architecture = ZOO["llama"]
    weights = architecture.cost(Shape()).weights
    depth = architecture.decoder.depth
    frozen = ("embedding.*", *(f"decoder.layers.{i}.*" for i in range(depth - 1)))
    method = Method("last", Tuning(frozen=frozen), AdamW())
    found = FineTuning(architecture, method, 11, FP32)
    model = build(architecture, FP32).train()
    for path, parameter in model.named_parameters():
        parameter.requires_grad_(path in found.tuned.learning)
    kept = found._saved(Shape(batch=2, length=11), FP32)
    loss = sum(size for name, size in kept.by_name.items() if name.startswith("loss."))
    assert sum(kept.by_name.values()) - loss == measured(model)
    assert found.tuned.parameters == sum(w.count for path, w in weights.items() if path in found.tuned.learning)


def test_weights_gradients_and_moments_by_hand(llama):
    full = llama["all weights, AdamW"].peak(1).at_update
    assert (full.weights, full.gradients, full.optimiser) == (4 * N, 4 * N, 8 * N)
    assert llama["all weights, AdamW"].memory(1) == af.cost("llama-3-8b", length=2048).memory, "the same as `cost`"
    lora = llama["LoRA rank 16, bf16 weights"].memory(1)
    assert lora.weights == 2 * N + 4 * 41_943_040
    assert lora.optimiser == 8 * 41_943_040
    assert llama["LoRA rank 16, bf16 weights"].peak(1).at_update.gradients == 4 * 41_943_040
    matrices = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    others = N - matrices
    four = matrices // 2 + matrices // 64 + 4 * matrices // (64 * 256)
    assert llama["QLoRA rank 16, nf4 weights"].weights == four + 2 * others + 4 * 41_943_040
    # A matrix in 4 bits is there in bf16 while it multiplies.
    assert llama["QLoRA rank 16, nf4 weights"].peak(1).at_update.temporaries == 2 * 4096 * 14336


def test_all_weights_in_bf16_by_hand(llama):
    """Weights and gradients of two bytes each, no copy of them in another type, and moments of one."""
    found = llama["all weights in bf16, 8-bit AdamW"]
    full = found.peak(1).at_update
    assert (full.weights, full.gradients, full.copies) == (2 * N, 2 * N, 0)
    assert full.optimiser == llama["all weights, 8-bit AdamW"].optimiser
    assert found.fixed == full.weights + full.gradients + full.optimiser < H100.usable_memory
    assert found.memory(1).total <= H100.usable_memory < llama["all weights, 8-bit AdamW"].memory(1).total


def test_products_in_fp32_are_priced_and_said():
    """Weights that learn in bf16 are left out there; a frozen matrix in bf16 is there in fp32 while it multiplies."""
    said = CliRunner().invoke(app, ["plan", "llama-3-8b", "--finetune", "--precision", "fp32"], env={"COLUMNS": "1000"}).output
    assert "batch 1 x 2,048 tokens in fp32?" in said
    assert "products are in fp32" in " ".join(said.split())
    assert "in bf16" not in said
    lora = priced("llama-3-8b", plan=Plan(precision="fp32"))["LoRA rank 16, bf16 weights"]
    assert lora.peak(1).at_update.temporaries == 4 * 4096 * 14336


def test_what_no_length_changes_does_not_depend_on_the_length():
    """128.5 GB at 2k, where it is all that is held at the update, and at 128k, where activations make the peak."""
    alone = "weights, gradients and optimiser state alone"
    said = CliRunner().invoke(app, ["plan", "llama-3-8b", "--finetune", "--length", "128k"], env={"COLUMNS": "1000"}).output
    assert f"no, 240.2 GB; {alone} take 128.5 GB" in said


def test_frozen_matrices_have_no_gradient_of_their_own(llama):
    """Two products of three, so that a step takes at most about two thirds as long."""
    full, lora = (llama[name].seconds(4, H100) for name in ("all weights, AdamW", "LoRA rank 16, bf16 weights"))
    assert 0.5 < lora / full < 0.8
    assert llama["the last 8 layers, AdamW"].seconds(4, H100) < 0.6 * full


def test_the_largest_batch_is_the_last_that_fits(llama):
    for each in llama.values():
        largest = each.largest_batch(H100.usable_memory)
        assert largest == 0 or each.memory(largest).total <= H100.usable_memory < each.memory(largest + 1).total
    assert llama["all weights, AdamW"].largest_batch(H100.usable_memory) == 0


def test_the_command_answers_first():
    result = CliRunner().invoke(app, ["plan", "llama-3-8b", "--finetune", "--length", "2k"], env={"COLUMNS": "1000"})
    assert result.exit_code == 0, result.output
    first, *rest = result.output.splitlines()
    assert first.startswith("Can llama-3-8b be fine-tuned on one H100 SXM 80 GB, batch 1 x 2,048 tokens in bf16?")
    answers = dict(line.strip().split(":", 1) for line in rest[:7])
    alone = "for weights, gradients and optimiser state alone"
    assert answers["all weights, AdamW"].strip() == f"no, 128.5 GB {alone}"
    assert answers["all weights in bf16, 8-bit AdamW"].split()[0] == "yes,"
    assert answers["LoRA rank 16, bf16 weights"].split()[0] == "yes,"
    found = json.loads(CliRunner().invoke(app, ["plan", "gpt2", "--finetune", "--json", "--rank", "4"]).output)
    assert found[0]["length"] == 1024
    assert all(each["fits"] for each in found[0]["methods"])
    assert all(each["largest_batch_computed_again"] >= each["largest_batch"] > 1 for each in found[0]["methods"])
    assert CliRunner().invoke(app, ["plan", "gpt2", "--finetune", "--gpus", "4"]).exception is not None


def test_a_run_names_what_is_priced_and_training_refuses_it(tmp_path):
    run = Run(steps=1, data=Text(paths=("nowhere",), tokenizer=Bytes()), architecture=ZOO["llama"])
    asked = run.but(tuning=Tuning(adapter=Lora(), base="nf4"), optimiser=AdamW8bit())
    assert Run.parse(asked.plain()) == asked
    assert 'kind = "adamw_8bit"' in to_toml(asked)
    with pytest.raises(UserError, match=r"tuning.train_only: 'heads.\*' names no weight"):
        train(run.but(tuning=Tuning(train_only=("heads.*",))), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    named = {**run.plain(), "optimiser": {"learning_rate": 3e-4}}
    assert Run.parse(named).optimiser == AdamW(learning_rate=3e-4)
    with pytest.raises(UserError, match=r"'adam' is no kind; did you mean 'adamw'"):
        Run.parse({**run.plain(), "optimiser": {"kind": "adam"}})


def test_a_run_is_priced_as_it_says(tmp_path):
    tuning = Tuning(adapter=Lora(rank=2, targets=("*.query",)), base="nf4")
    run = Run(steps=1, data=Text(paths=("x",), tokenizer=Bytes()), architecture=ZOO["llama"], tuning=tuning, optimiser=Lion())
    path = tmp_path / "run.toml"
    path.write_text(to_toml(run))
    (found,) = json.loads(CliRunner().invoke(app, ["plan", str(path), "--finetune", "--json"]).output)
    own = found["methods"][0]
    width, layers = ZOO["llama"].width, ZOO["llama"].decoder.depth
    assert (own["name"], own["learning"]) == ("this run", layers * 2 * 2 * width)
    assert own["memory"]["optimiser"] == 4 * own["learning"], "Lion has one moment"


def test_numbers_of_the_twin():
    x = torch.ones(2, 4)
    made = Beside(nn.Linear(4, 3, bias=False), 2)
    assert torch.allclose(made(x), x @ (made.frozen.weight + 2 * made.up.weight @ made.down.weight).T, atol=1e-6)
