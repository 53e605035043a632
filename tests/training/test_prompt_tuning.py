"""Prompt tuning: virtual tokens in front of a text, which alone learn."""

from __future__ import annotations

from shutil import copytree, rmtree

import pytest
import torch
from rich.console import Console
from zoo import ZOO

import anyformer as af
from anyformer import checkpoint
from anyformer.describe import DescriptionError, UserError, change_all, from_toml, to_toml
from anyformer.model.adapted import adapted
from anyformer.model.adapters import adapt, plain
from anyformer.model.transformer import build
from anyformer.training import Run, resume, train
from anyformer.tuning import Prompt, Tuning

QUIET = Console(quiet=True)
PROMPT = Tuning(adapter=Prompt(tokens=3))


@pytest.fixture
def prompted(tiny):
    return tiny.but(tuning=PROMPT)


def test_virtual_tokens_are_embeddings_in_front_of_the_text():
    """A model prompted with the embeddings of tokens gives what the bare model gives behind these tokens."""
    architecture = ZOO["llama"]
    bare, model = build(architecture, seed=1).eval(), build(architecture, seed=1).eval()
    adapt(model, Prompt(tokens=4), 7)
    tokens = architecture.embedding.example(2, 9)
    (first,) = [torch.tensor([int((bare.embedding.weight == row).all(1).nonzero()) for row in model.virtual_tokens])]
    assert len(set(first.tolist())) == 4
    expected = bare(torch.cat([first.expand(2, -1), tokens], 1))[:, 4:]
    torch.testing.assert_close(model(tokens), expected)
    positions = torch.arange(2, 11).expand(2, -1)
    moved = torch.cat([torch.arange(4).expand(2, -1), positions + 4], 1)
    whole = bare(torch.cat([first.expand(2, -1), tokens], 1), positions=moved)[:, 4:]
    torch.testing.assert_close(model(tokens, positions=positions), whole)
    torch.testing.assert_close(plain(model)(tokens), expected)
    assert plain(model).architecture == adapted(architecture, Prompt(tokens=4))


def test_the_first_values_follow_from_the_seed():
    rows = []
    for seed, prompt in ((1, Prompt()), (1, Prompt()), (2, Prompt()), (1, Prompt(first="random"))):
        model = build(ZOO["gpt2"])
        adapt(model, prompt, seed)
        rows.append(model.virtual_tokens.detach())
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])
    table = build(ZOO["gpt2"]).embedding.weight
    assert not (rows[3][:, None] == table).all(-1).any(), "drawn, and no row of the table"


def test_a_run_trains_the_prompt_alone_and_is_used_from_its_directory(prompted, tmp_path):
    """With the weights of another run; and the virtual tokens begin as embeddings of that one."""
    train(prompted.but(tuning=Tuning()), tmp_path / "base", console=QUIET)
    run = prompted.but(start_from=str(tmp_path / "base"))
    trained = train(run, tmp_path / "run", console=QUIET)
    base, _ = af.load(tmp_path / "base")
    last = checkpoint.directory_of(tmp_path / "run", 8)
    bare, tokenizer, _ = checkpoint.load(last, merge=False)
    for name, parameter in base.named_parameters():
        assert torch.equal(parameter, bare.get_parameter(name)), name
    assert bare.architecture == run.architecture
    loaded, _ = af.load(tmp_path / "run")
    tokens = torch.arange(24)[None]
    assert torch.equal(loaded(tokens), trained.model(tokens))
    assert not torch.allclose(loaded(tokens), base(tokens), atol=1e-3)
    near = (loaded.virtual_tokens[:, None] - base.embedding.weight).abs().amax(-1).amin(-1)
    assert ((near > 0) & (near < 0.1)).all(), "moved, and near to rows of the table that it started from"
    assert set(checkpoint.read(last / "adapter.safetensors")) == {"virtual_tokens"}
    state = checkpoint.read(last / "optimiser.safetensors")
    assert {key.rpartition("/")[0] for key in state} == {"virtual_tokens"}
    assert af.generate(loaded, tokenizer, ["def", "x"], max_tokens=4)
    assert from_toml(Run, to_toml(run)) == run


def test_it_resumes_to_the_same_bits(prompted, tmp_path):
    run = prompted.but(checkpoints=prompted.checkpoints.but(every=4, keep=2))
    whole = train(run, tmp_path / "whole", console=QUIET)
    copytree(tmp_path / "whole", tmp_path / "parts")
    rmtree(checkpoint.directory_of(tmp_path / "parts", 8))
    parts = resume(tmp_path / "parts", console=QUIET)
    for name, parameter in whole.model.named_parameters():
        assert torch.equal(parameter, parts.model.get_parameter(name)), name


@pytest.mark.usefixtures("counted_memory")
def test_what_training_holds_is_what_was_priced(prompted, tmp_path):
    """Bytes at the peak of an update, measured, within 1 %, and FLOPs."""
    wide = change_all(prompted, {"architecture.width": 64, "decoder.layer.feedforward.width": 128, "length": 64, "steps": 3})
    found = train(wide.but(tuning=Tuning(adapter=Prompt(tokens=20))), tmp_path / "run", console=QUIET).summary
    assert found.memory.predicted == pytest.approx(found.memory.measured, rel=0.01)
    assert found.flops.predicted == pytest.approx(found.flops.measured, rel=0.1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("original", "stand in front of the one text of a model, and this encoder-decoder"),
        ("layer_embedding", "a layer looks at the tokens themselves, and not all its positions are tokens"),
        ("latents", "and this latent model"),
        ("mtp", "leave mtp out"),
    ],
    ids=lambda word: word.split()[0],
)
def test_where_it_makes_no_sense_it_is_refused(name, message):
    architecture = next(
        each for key, each in ZOO.items() if key == name or (name == "latents" and each.latents) or (name == "mtp" and each.mtp)
    )
    with pytest.raises(DescriptionError, match=message):
        adapted(architecture, Prompt())


def test_a_position_table_must_hold_prompt_and_text(prompted):
    with pytest.raises(UserError, match="longer than the position table"):
        prompted.but(architecture=change_all(ZOO["gpt2"], {"embedding.vocab": 257}), length=31)
