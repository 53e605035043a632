"""Contracts of optimisers: their state is as large as declared and outlives a file, and an update is that of the formula."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from anyformer.model.transformer import Transformer, build
from anyformer.operations import Weight
from anyformer.parts import Attention, Rotary
from anyformer.testing.around import decoder_of
from anyformer.training.optimiser import averages_of, build_optimiser, load_state_tensors, optimiser_of, state_tensors
from anyformer.training.optimisers.narrow_weights import narrowed
from anyformer.training.optimisers.rules import Learner, groups_of
from anyformer.tuning import Optimiser

OptimiserTwin = Callable[[Any, Tensor, Tensor, dict[str, Any], int, float], Tensor]
"""(optimiser, weight, gradient, state, number of the update from 1, rate) -> the weight after it. Of one matrix (O, I), or one
vector; the state is an empty dict at first. Of an optimiser that `averages`, the weight to evaluate with is state["x"]."""

WEIGHTS = {
    "table": Weight((7, 4), "column", "embedding"),
    "matrix": Weight((6, 4), "row", "residual"),
    "tall experts": Weight((2, 7, 3), "expert", "residual", chosen=1),
    "experts": Weight((3, 4, 5), "expert", "matrix", chosen=1),
    "gain": Weight((5,), "replicate", "ones"),
    "biases of experts": Weight((3, 4), "expert", "zeros", chosen=1),
}
"""A weight of every kind that optimisers tell apart."""
RATES = (2e-3, 4e-3, 6e-3, 6e-3, 5e-3)
"""Rates of five updates, as a schedule has them."""
NEAR = 1e-7
"""How far from its twin a number may be, in units of 1; five updates move it by some 1e-2."""
HALTED, LAST = 2, 5
"""The update after which a state is written, and the last."""


def numbers(weight: Weight, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers for a weight or its gradient."""
    return torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def gradients(step: int, dtype: torch.dtype = torch.float64, weights: Mapping[str, Weight] = WEIGHTS) -> dict[str, Tensor]:
    """The gradient of each weight at an update."""
    return {name: 0.3 * numbers(weight, 100 + 10 * step + i, dtype) for i, (name, weight) in enumerate(weights.items())}


def matrices(weight: Weight, x: Tensor) -> list[Tensor]:
    """The matrices or vectors of a weight, one by one: experts are weights of their own."""
    return list(x) if weight.role == "expert" else [x]


def updates_equal_its_twin(optimiser: Optimiser, twin: OptimiserTwin, near: float = NEAR) -> None:
    """Five updates of weights of every kind are those of the twin."""
    paces = optimiser.paces(WEIGHTS)
    parameters = {name: nn.Parameter(numbers(weight, i)) for i, (name, weight) in enumerate(WEIGHTS.items())}
    learners = [Learner(parameters[name], optimiser.rule(weight), paces[name]) for name, weight in WEIGHTS.items()]
    built = optimiser_of(groups_of(learners, optimiser.learning_rate))
    plain = {name: matrices(weight, numbers(weight, i)) for i, (name, weight) in enumerate(WEIGHTS.items())}
    states: dict[str, list[dict[str, Any]]] = {name: [{} for _ in each] for name, each in plain.items()}
    for t, rate in enumerate(RATES, 1):
        found = gradients(t - 1)
        for name, parameter in parameters.items():
            parameter.grad = found[name]
        for group in built.param_groups:
            group["lr"] = rate * group["factor"]
        built.step()
        means = averages_of(optimiser, built)()
        for name, weight in WEIGHTS.items():
            pieces = zip(plain[name], matrices(weight, found[name]), states[name], strict=True)
            plain[name] = [twin(optimiser, w, g, state, t, rate) for w, g, state in pieces]
            _close(f"{name}, update {t}", parameters[name], plain[name], weight, near)
            if parameters[name] in means:
                _close(f"mean of {name}, update {t}", means[parameters[name]], [s["x"] for s in states[name]], weight, near)


def _close(what: str, found: Tensor, twin: list[Tensor], weight: Weight, near: float) -> None:
    ours, theirs = torch.stack(matrices(weight, found.detach())), torch.stack(twin)
    apart = (ours - theirs).abs().max().item()
    assert apart <= near, f"{what}: {apart:.2g} beside the twin"


def state_takes_the_declared_bytes(optimiser: Optimiser) -> None:
    """The state of every weight of a model, single numbers left out, takes `state_bytes`; those are few."""
    model = _model()
    built = build_optimiser(optimiser, model)
    _advance(built, model, 0, 1)
    for path, parameter in model.named_parameters():
        state = built.state[parameter]
        held = sum(x.nbytes for x in state.values() if x.dim())
        declared = optimiser.state_bytes(model.declared[path])
        assert held == declared, f"{path}: state_bytes says {declared:,}, and the state takes {held:,}"
        single = [name for name, x in state.items() if not x.dim()]
        assert len(single) <= 3, f"{path}: the state has {len(single)} single numbers, which no price counts: {single}"


def state_survives_save_and_load(optimiser: Optimiser) -> None:
    """Updates after the state was written to a file and read again give the same bits: nothing is kept anywhere else."""
    model = _model()
    built = build_optimiser(optimiser, model)
    _advance(built, model, 0, HALTED)
    with tempfile.TemporaryDirectory(prefix="anyformer-check-") as place:
        save_file(state_tensors(built, model), file := Path(place) / "state.safetensors")
        again = _model()
        with torch.no_grad():
            for ours, theirs in zip(again.parameters(), model.parameters(), strict=True):
                ours.copy_(theirs)
        restored = build_optimiser(optimiser, again)
        load_state_tensors(restored, again, load_file(file))
    _advance(built, model, HALTED, LAST)
    _advance(restored, again, HALTED, LAST)
    states = state_tensors(built, model)
    for name, tensor in {**dict(again.named_parameters()), **state_tensors(restored, again)}.items():
        expected = states[name] if name in states else model.get_parameter(name)
        assert torch.equal(tensor, expected), f"{name} differs after the state was read again"


def parts_of_a_weight_change_like_the_whole(optimiser: Optimiser) -> None:
    """Of an elementwise rule, two parts of a weight and of its state change as they do in the whole."""
    for name, weight in WEIGHTS.items():
        rule = optimiser.rule(weight)
        assert rule == optimiser.rule(weight), (
            f"{name}: two rules of one weight are not equal: make the rule a frozen dataclass"
        )
        if not rule.elementwise:
            continue  # its weights are whole while they change
        cut = weight.shape[0] // 2
        whole = _changed(optimiser, name)
        parts = [_changed(optimiser, name, slice(cut)), _changed(optimiser, name, slice(cut, None))]
        apart = (torch.cat(parts) - whole).abs().max().item()
        assert apart < 1e-12, f"{name}: its parts are {apart:.2g} beside the whole, so its rule is not elementwise"


def weights_in_bf16_change_like_their_copies(optimiser: Optimiser) -> None:
    """With a copy in fp32 that is kept, a weight in bf16 is that copy rounded; without one it stays near."""
    for name, weight in WEIGHTS.items():
        wide = _changed(optimiser, name, dtype=torch.float32)
        first = numbers(weight, 0, torch.float32)
        for masters in (True, False):
            narrow = first.clone() if masters else first.to(torch.bfloat16)
            rule = narrowed(optimiser.rule(weight), masters=masters, key=1)
            state = rule.start(narrow)
            narrow = narrow.to(torch.bfloat16)
            for step, rate in enumerate(RATES):
                rule.change(narrow, gradients(step, torch.float32)[name], state, rate, optimiser.paces(WEIGHTS)[name].decay)
            if masters:
                assert torch.equal(narrow, wide.to(torch.bfloat16)), (
                    f"{name}: a weight in bf16 is not its copy in fp32, rounded"
                )
            moved = max((wide - first).norm().item(), 2**-8 * first.norm().item())
            assert (narrow - wide).norm() < 2 * moved, f"{name}: rounded by chance, a weight goes elsewhere than in fp32"


CONTRACTS: tuple[Callable[[Optimiser], None], ...] = (
    state_takes_the_declared_bytes,
    state_survives_save_and_load,
    parts_of_a_weight_change_like_the_whole,
    weights_in_bf16_change_like_their_copies,
)


def _changed(optimiser: Optimiser, name: str, rows: slice = slice(None), dtype: torch.dtype = torch.float64) -> Tensor:
    """Rows of a weight after five updates by its rule."""
    rule, decay = optimiser.rule(WEIGHTS[name]), optimiser.paces(WEIGHTS)[name].decay
    weight = numbers(WEIGHTS[name], 0, dtype)[rows].clone()
    state = rule.start(weight)
    for step, rate in enumerate(RATES):
        rule.change(weight, gradients(step, dtype)[name][rows], state, rate, decay)
    return weight


def _model() -> Transformer:
    return build(decoder_of(Attention(heads=4, place=Rotary())))


def _advance(built: torch.optim.Optimizer, model: Transformer, first: int, last: int) -> None:
    """Updates with gradients that depend on their number alone, and a rate that changes."""
    for step in range(first, last):
        for i, parameter in enumerate(model.parameters()):
            parameter.grad = 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1000 * step + i))
        for group in built.param_groups:
            group["lr"] = 1e-3 * (1 + step) * group["factor"]
        built.step()
