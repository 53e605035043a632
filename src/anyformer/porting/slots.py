"""What may stand in the slots of a mixer beside its projections: a sink per head, a gate of what heads have mixed, norms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from anyformer.describe import get
from anyformer.parts import GroupedRMSNorm, LayerNorm, OutputGate, RMSNorm
from anyformer.porting.changes import Put
from anyformer.porting.explaining import Fit
from anyformer.porting.hint import Hint
from anyformer.porting.looking import blocks_in, heads_in
from anyformer.porting.roles import role
from anyformer.porting.tensors import Shape

_GATE = re.compile(r"gate|(^|[._])g_proj$")
_NONLINEAR = ("sigmoid", "silu", "softplus", "tanh")


def slots(fit: Fit) -> Iterator[Hint]:
    """Sinks and gates of attention, by names and shapes."""
    heads = next(heads_in(fit.architecture), None)
    if heads is None:
        return
    assert fit.architecture is not None
    features = heads.heads * heads.width_of_head(fit.architecture.width)
    for each in (each for each in fit.left if "{i}" in each.name and "attention" in role(each.name)):
        if "sink" in role(each.name) and each.shape == (heads.heads,):
            yield Hint("a sink of every head", (Put("attention.sink", "head"),), {"attention.sink": each.tensor})
        gate = get(heads, "gate")
        counts: dict[Shape, Any] = {(heads.heads,): True if gate and gate.per == "head" else "head", (features,): True}
        if gate is not None and not gate.bias and "gate" in each.name.rpartition(".")[2] and each.shape in counts:
            put = Put("attention.gate.bias", counts[each.shape])
            yield Hint(f"a bias of the gate of attention: {each.name}", (put,), {"attention.gate.bias": each.tensor})
        rows = {(heads.heads, fit.architecture.width): "head", (features, fit.architecture.width): "feature"}
        if _GATE.search(each.name.rpartition(".")[2]) and each.shape in rows:
            part = OutputGate(per=rows[each.shape], bias="bias" in each.leaves)  # type: ignore[arg-type]
            more = {"attention.gate.projection": each.name}
            yield Hint(f"a gate of each {part.per} of what attention gives", (Put("attention.gate", part),), more)


def gate_guesses(fit: Fit) -> Iterator[Hint]:
    """Other nonlinearities of a gate."""
    heads = next(heads_in(fit.architecture), None)
    gate = None if heads is None else get(heads, "gate")
    if gate is None:
        return
    for activation in _NONLINEAR:
        if gate.activation != activation:
            yield Hint(f"the gate of attention: {activation}", (Put("attention.gate.activation", activation),))


def norm_guesses(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    """Other epsilons of the norms within mixers, those that keys say."""
    said = [value for name, value in sorted(table.items()) if "eps" in name and isinstance(value, float)]
    norms: dict[str, float] = {}
    for block in blocks_in(fit.architecture):
        for branch, each in block.branches.items():
            for field in type(each.sublayer).model_fields:
                norm = getattr(each.sublayer, field)
                if isinstance(norm, RMSNorm | LayerNorm | GroupedRMSNorm):
                    norms[f"{branch}.{field}.eps"] = norm.eps
    for eps in dict.fromkeys(said):
        for path, held in norms.items():
            if held != eps:
                yield Hint(f"epsilon of {path.removesuffix('.eps').replace('.', ' ')}: {eps}", (Put(path, eps),))
