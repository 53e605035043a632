"""The state of optimisers: as large as priced, and restored to the bit; groups by path; the weights to evaluate with."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
import torch
import zoo
from rich.console import Console
from safetensors.torch import load_file, save_file

from anyformer import checkpoint
from anyformer.costs import peak_memory
from anyformer.costs.memory_check import TOKEN_BYTES, NotEnoughMemoryError, memory_warnings
from anyformer.costs.step import PricedStep
from anyformer.describe import DescriptionError, UserError, change_all, from_toml, to_toml
from anyformer.generation import generate
from anyformer.loading import load
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.training import ConstantSchedule, InverseSquareRoot, Run, resume, train
from anyformer.training.averaging import averaged, put
from anyformer.training.journal import read_metrics
from anyformer.training.optimiser import averages_of, build_optimiser, load_state_tensors, state_tensors
from anyformer.training.place import checkpoint_bytes
from anyformer.training.trainer import Trainer
from anyformer.tuning import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, ScheduleFree, WeightGroup
from anyformer.tuning.groups import groups_of
from anyformer.tuning.optimisers.rule_module import COUNTERS

QUIET = Console(quiet=True)
EACH = {
    "adamw": AdamW(),
    "adamw_8bit": AdamW8bit(block=64, smallest=100),
    "schedule_free": ScheduleFree(),
    "sgd": SGD(),
    "sgd without momentum": SGD(momentum=0.0),
    "lion": Lion(),
    "adafactor": Adafactor(),
    "muon": Muon(groups=(WeightGroup(paths=("*.query",), rate_factor=0.5),)),
}
MODELS = ("gpt2", "experts_after_top_k", "delta_gated")


def advanced(optimiser, model, first, last):
    """Updates number `first` to `last` with gradients that depend on their number alone, and a rate that changes."""
    for step in range(first, last):
        for i, parameter in enumerate(model.parameters()):
            parameter.grad = 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1000 * step + i))
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * (1 + step) * group["factor"]
        optimiser.step()


def digest(tensors) -> str:
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("architecture", MODELS)
def test_a_state_is_as_large_as_priced_and_restored_to_the_bit(name, architecture, tmp_path):
    described, asked = EACH[name], zoo.ZOO[architecture]
    whole = build(asked)
    optimiser = build_optimiser(described, whole)
    advanced(optimiser, whole, 0, 1)
    declared, held = asked.cost(Shape(source=1)).weights, {}
    for path, parameter in whole.named_parameters():
        state = optimiser.state[parameter]
        held[path] = sum(value.nbytes for key, value in state.items() if key not in (*COUNTERS, "step"))
        assert sum(value.nbytes for value in state.values()) <= held[path] + 16
    assert held == {path: described.state_bytes(declared[path]) for path in held}
    save_file({**state_tensors(optimiser, whole)}, tmp_path / "state.safetensors")
    halted = {path: parameter.detach().clone() for path, parameter in whole.named_parameters()}
    advanced(optimiser, whole, 1, 5)

    again = build(asked, seed=1)
    with torch.no_grad():
        for path, parameter in again.named_parameters():
            parameter.copy_(halted[path])
    restored = build_optimiser(described, again)
    load_state_tensors(restored, again, load_file(tmp_path / "state.safetensors"))
    advanced(restored, again, 1, 5)
    assert digest(again.parameters()) == digest(whole.parameters())
    ours, theirs = state_tensors(restored, again), state_tensors(optimiser, whole)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[key]) for key, value in ours.items())
    put(averages_of(described, restored)())
    put(averages_of(described, optimiser)())
    assert digest(again.parameters()) == digest(whole.parameters())


LEARNING = {name: {"lion": 1e-3, "sgd": 0.1, "sgd without momentum": 0.1, "adafactor": 0.1}.get(name, 1e-2) for name in EACH}
QUICK = ("muon", "schedule_free")


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EACH])
def test_a_run_learns_and_resumes_to_the_bit(tiny, tmp_path, name):
    described = EACH[name].but(learning_rate=LEARNING[name])
    run = change_all(tiny, {"optimiser": described, "schedule": ConstantSchedule(warmup=2), "checkpoints.every": 4})
    whole = train(run, tmp_path / "whole", console=QUIET)
    train(run.but(steps=5), tmp_path / "part", console=QUIET)
    resumed = resume(tmp_path / "part", {"steps": 8}, console=QUIET)
    losses = [row["loss"] for row in read_metrics(tmp_path / "whole") if row["kind"] == "train"]
    assert losses[-1] < losses[0] - 0.1
    assert [row["loss"] for row in read_metrics(tmp_path / "part") if row["kind"] == "train"] == losses
    assert digest(resumed.model.parameters()) == digest(whole.model.parameters())
    newest, _ = checkpoint.latest(tmp_path / "whole")
    size = sum(path.stat().st_size for path in newest.glob("*.safetensors"))
    assert checkpoint_bytes(run) == pytest.approx(size, rel=0.2)  # headers, and counters


@pytest.mark.parametrize("name", EACH)
def test_each_learns_a_repeated_batch(name):
    torch.manual_seed(0)
    model = build(zoo.ZOO["experts_after_top_k"])
    optimiser, tokens = build_optimiser(EACH[name].but(learning_rate=LEARNING[name]), model), torch.randint(20, (4, 12))
    losses = []
    for _ in range(15):
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3


def test_only_averaged_weights_are_seen_outside(tiny, tmp_path, monkeypatch):
    """Evaluation, checkpoint, the model returned and its sample have x; training has y, to the bit."""
    run = change_all(tiny, {"optimiser": ScheduleFree(learning_rate=1e-2), "schedule": ConstantSchedule(warmup=2)})
    kept, real = {}, Trainer.fetched

    def spied(self, step, *rest):
        if step == 7:
            kept["y"] = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
            kept["trainer"] = self
        return real(self, step, *rest)

    monkeypatch.setattr(Trainer, "fetched", spied)
    trained = train(run, tmp_path / "run", console=QUIET)
    stored, tokenizer = load(tmp_path / "run")
    assert digest(stored.parameters()) == digest(trained.model.parameters())
    newest, _ = checkpoint.latest(tmp_path / "run")
    state = load_file(newest / "optimiser.safetensors")
    for name, x in trained.model.named_parameters():
        y, z = state[f"{name}/trained"], state[f"{name}/z"]
        torch.testing.assert_close(y, 0.1 * z + 0.9 * x, rtol=1e-4, atol=1e-6)
        assert not torch.equal(x, y)
    # The last evaluation is that of the stored weights, which differ in loss from those of training.
    trainer = kept["trainer"]
    assert trainer.evaluate(10**6).loss == pytest.approx(trained.validation.loss, rel=1e-6)
    trainer = replace(trainer, trainee=replace(trainer.trainee, averages=dict))
    assert trainer.evaluate(10**6).loss != pytest.approx(trained.validation.loss, rel=1e-4)
    assert generate(stored, tokenizer, "def", max_tokens=3)


def test_the_weights_in_training_are_back_after_evaluation_even_if_it_fails():
    model = build(zoo.ZOO["gpt2"])
    optimiser = build_optimiser(ScheduleFree(), model)
    averages = averages_of(ScheduleFree(), optimiser)
    assert averages() == {}, "nothing is averaged before the first update"
    advanced(optimiser, model, 0, 3)
    before = digest(model.parameters())

    def failing():
        with averaged(averages) as trained:
            assert digest(model.parameters()) != before
            assert digest(trained[parameter] for parameter in model.parameters()) == before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert digest(model.parameters()) == before


def test_memory_is_foretold_with_the_runs_optimiser(tiny):
    asked = {"batch": 4, "length": 32, "plan": tiny.plan}
    declared = tiny.architecture.cost(Shape(source=1)).weights.values()
    for optimiser in EACH.values():
        held = peak_memory(tiny.architecture, **asked, optimiser=optimiser).holding
        assert held.optimiser == sum(map(optimiser.state_bytes, declared))
    assert peak_memory(tiny.architecture, **asked, optimiser=AdamW()) == peak_memory(tiny.architecture, **asked)
    less = peak_memory(tiny.architecture, **asked, optimiser=SGD(momentum=0.0)).total
    figures = {**asked, "free": less + 4 * 33 * TOKEN_BYTES}
    assert list(memory_warnings(PricedStep(tiny.architecture, SGD(momentum=0.0)), **figures))
    with pytest.raises(NotEnoughMemoryError):
        list(memory_warnings(PricedStep(tiny.architecture, AdamW()), **figures))


def test_a_rate_that_falls_is_refused_where_weights_are_averaged_instead(tiny):
    with pytest.raises(DescriptionError, match=r"'schedule_free' averages.*'cosine' lowers.*kind = 'constant'"):
        change_all(tiny, {"optimiser": ScheduleFree()})
    with pytest.raises(DescriptionError, match="inverse_square_root"):
        change_all(tiny, {"optimiser": ScheduleFree(), "schedule": InverseSquareRoot()})
    change_all(tiny, {"optimiser": ScheduleFree(), "schedule.floor": 1.0})


GROUPS = (
    WeightGroup(paths=("embedding.*",), rate_factor=0.3, decay_factor=0.0),
    WeightGroup(paths=("*.query", "*norm*"), decay_factor=0.5),
)


@pytest.mark.parametrize("name", EACH)
def test_groups_have_their_own_rates_and_decays(tiny, name):
    described = EACH[name].but(groups=GROUPS, weight_decay=0.2)
    model = build(tiny.architecture)
    of = {id(p): group for group in build_optimiser(described, model).param_groups for p in group["params"]}
    for path, parameter in model.named_parameters():
        group, other = of[id(parameter)], path.startswith("embedding") or parameter.dim() == 1
        shared = name == "muon" and other
        rate = described.others.learning_rate / described.learning_rate if shared else 1.0
        decay = described.others.weight_decay if shared else 0.2
        factors = (0.3, 0.0) if path.startswith("embedding") else (1.0, 0.5 if "query" in path or "norm" in path else None)
        matrix = float(parameter.dim() > 1) if factors[1] is None else factors[1]
        assert group["factor"] == pytest.approx(rate * factors[0]), path
        assert group["weight_decay"] == pytest.approx(decay * matrix), path


def test_a_weight_of_a_group_moves_by_its_factor(tiny, tmp_path):
    run = change_all(tiny, {"steps": 1, "optimiser": Lion(weight_decay=0.0), "schedule.warmup": 0})
    before = dict(build(tiny.architecture, seed=tiny.seed).named_parameters())
    for factor in (1.0, 0.25):
        groups = (WeightGroup(paths=("embedding.*",), rate_factor=factor),)
        trained = train(change_all(run, {"optimiser.groups": groups}), tmp_path / str(factor), console=QUIET)
        for name, weight in trained.model.named_parameters():
            moved = (weight - before[name]).abs().max().item()
            assert moved == pytest.approx(1e-4 * (factor if name.startswith("embedding") else 1), rel=1e-2), name


def test_the_first_group_that_names_a_weight_counts(tiny):
    table, every = WeightGroup(paths=("embedding.*",), rate_factor=2.0), WeightGroup(paths=("*",), rate_factor=3.0)
    weights = build(tiny.architecture, device="meta").declared
    found = groups_of((table, every), weights)
    assert found == {path: table if path == "embedding.weight" else every for path in weights}


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("embeding.*", r"groups\.0\.paths: 'embeding\.\*' names no weight; did you mean 'embedding\.\*'"),
        ("*.querry", r"did you mean '\*\.query'"),
        ("zzzzzz", r"a path is 'embedding\.weight'"),
    ],
)
def test_a_pattern_that_names_nothing_is_refused_with_the_nearest(tiny, pattern, words):
    with pytest.raises(DescriptionError, match=words):
        change_all(tiny, {"optimiser.groups": (WeightGroup(paths=(pattern,)),)})


def test_senseless_groups_are_refused(tiny):
    twice = (WeightGroup(paths=("*",)), WeightGroup(paths=("embedding.*",), rate_factor=2.0))
    with pytest.raises(UserError, match=r"groups\.1\.paths: all that 'embedding\.\*' names is in an earlier group"):
        change_all(tiny, {"optimiser.groups": twice})
    with pytest.raises(DescriptionError, match=r"others\.groups: groups of all weights stand in one list"):
        Muon(others=AdamW(groups=GROUPS))
    with pytest.raises(DescriptionError, match="paths"):
        WeightGroup(paths=())


def test_groups_stand_in_a_file(tiny):
    written = change_all(tiny, {"optimiser": Muon(groups=GROUPS)})
    assert from_toml(Run, to_toml(written)) == written
    assert Run.parse(json.loads(json.dumps(written.plain()))) == written
