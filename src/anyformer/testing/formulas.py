"""Contracts of a part's formula, written a second time in plain operations: what a norm, a mask, a choice of experts or a part
of a slot of attention computes, forward and backward, and the work that it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn

from anyformer.describe import Value
from anyformer.parts import Attention
from anyformer.parts.attention.slots import Adjustment, Combine, Term
from anyformer.parts.attention.weigh import Map
from anyformer.parts.experts.selection import RouterInputs, Selection
from anyformer.parts.masks.mask import Mask
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.place import Place
from anyformer.testing.around import WIDTH, decoder_of
from anyformer.testing.by_hand import SlotFormulas, attention_by_hand
from anyformer.testing.counted_work import elementwise, operations_of
from anyformer.testing.masks import CALLS, seen
from anyformer.testing.models import STEP
from anyformer.testing.twins import sublayer_equals_its_twin

T = TypeVar("T")
Formula = Callable[..., Any]
"""By the kind of part, with what it built under `a[...]`, in float64:

    norm(part, a, v (D,)) -> (D,), gain and bias included;
    mask(part, query, key, prefix) -> bool;
    selection(part, scores (X,)) -> (X,), experts are chosen from the largest down;

and in attention, where a.x[t] is the layer's input and heads have E or U features:

    adjustment(part, a, h (E,), side, head, t) -> (E,);
    place(part, a, h (E,), t, side) -> (E,);
    term(part, a, query (E,), head, t, s) -> a number;
    weigh(part, a, scores (S,) of the keys that a query sees, head) -> (S,);
    combine(part, a, heads, t) -> heads, a list of (U,).
"""
HEADS, GROUPS, KEYS = 4, 2, 64
"""Of attentions with a part in a slot; scores of a query whose operations are counted."""
VECTORS, FEATURES, SIZE = 32, 1920, 1.37
"""Of a comparison of a norm in bf16: so many features, of a size that the norm changes, that their rounding averages out."""
APART = 8e-4
"""How far the size of a norm's output in bf16 may be from fp32's; statistics in bf16 are some 2e-3 apart."""


def part_equals_its_formula(part: Value, formula: Formula) -> None:
    """What a part computes, and its gradients, are those of its formula."""
    compared = of_base(COMPARED, part)
    assert compared is not None, f"{type(part).__name__} has no formula to be compared with"
    compared(part, formula)


def has_formula(part: Value) -> bool:
    """Whether it is of a kind whose parts are compared with a formula."""
    return of_base(COMPARED, part) is not None


def of_base(table: Mapping[type, T], part: Value) -> T | None:
    """What a table has of the nearest base of a part."""
    return next((table[base] for base in type(part).__mro__ if base in table), None)


def moved(module: nn.Module) -> nn.Module:
    """A module whose weights are numbers around 1."""
    draws = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(1 + STEP * torch.randn(weight.shape, generator=draws))
    return module.eval()


def _norm_equals(norm: Norm, formula: Formula) -> None:
    module = moved(norm.build(WIDTH).double())
    x = torch.randn(2, 3, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    direction = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    ours = module(x)
    theirs = torch.stack([formula(norm, weights, v) for v in x.flatten(0, 1)]).view_as(x)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, msg=partial("{}: {}".format, "outputs beside the formula's"))
    leaves = {"its input": x, **weights}
    both = (torch.autograd.grad((y * direction).sum(), [*leaves.values()]) for y in (ours, theirs))
    for name, one, other in zip(leaves, *both, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=partial("the gradient of {}: {}".format, name))


def _mask_equals(mask: Mask, formula: Formula) -> None:
    for past, length, prefix in CALLS:
        found = seen(mask, past, length, prefix)
        for (row, key), allowed in zip(torch.cartesian_prod(*map(torch.arange, found.shape)).tolist(), found.flat, strict=True):
            wanted = formula(mask, past + row, key, prefix)
            assert bool(wanted) == bool(allowed), (
                f"query {past + row} {'sees' if allowed else 'does not see'} key {key} with a prefix of {prefix}, and by the "
                f"formula it {'does' if wanted else 'does not'}"
            )


def _selection_equals(selection: Selection, formula: Formula) -> None:
    experts, chosen, tokens = 6, 2, 20
    logits = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(3))
    scores = logits.softmax(-1)
    read = torch.arange(tokens)[None]
    found = selection.preference(RouterInputs(experts, chosen, logits, scores, tokens=read)).topk(chosen, -1).indices.tolist()
    for token, best in enumerate(found):
        wanted = torch.as_tensor(formula(selection, scores[token]), dtype=torch.float64).topk(chosen).indices.tolist()
        assert best == wanted, f"of the scores {scores[token].tolist()} it chooses the experts {best}, its formula {wanted}"


def declared_work_is_that_of_its_formula(part: Value, formula: Formula) -> None:
    """A norm declares every sum, product, quotient and root of its formula; a weighing those on one score, exponentials too."""
    work = of_base(WORKS, part)
    assert work is not None, f"{type(part).__name__} declares no work on numbers"
    work(part, formula)


def has_counted_work(part: Value) -> bool:
    """Whether it is of a kind whose operations are counted in its formula."""
    return of_base(WORKS, part) is not None


def _norm_work(norm: Norm, formula: Formula) -> None:
    weights = dict(moved(norm.build(WIDTH).double()).named_parameters())
    counted = operations_of(lambda v: formula(norm, weights, v), torch.rand(WIDTH, dtype=torch.float64) + 1)
    declared = elementwise(norm.cost(WIDTH, 1))
    assert declared == counted, f"of a vector of {WIDTH} features it declares {declared} operations, its formula has {counted}"


def _work_on_a_score(weigh: Map, formula: Formula) -> None:
    scores = torch.rand(KEYS, dtype=torch.float64) + 1
    own = nn.ParameterDict(weigh.build(Attention(heads=HEADS, kv_heads=GROUPS).sizes(WIDTH)))
    weights = dict(moved(own.double()).named_parameters())
    counted = operations_of(lambda s: formula(weigh, weights, s, 0), scores) / KEYS
    assert weigh.each == round(counted), f"`each` declares {weigh.each} operations on a score, its formula has {counted:.1f}"


def statistics_are_in_fp32(norm: Norm) -> None:
    """The output of a norm in bf16 is as large as in fp32 of the same numbers: only single features are rounded. Not asked of a
    norm with matrices."""
    module = moved(norm.build(FEATURES)).to(torch.bfloat16)
    if any(weight.dim() > 1 for weight in module.parameters()):
        return  # products in bf16 make other sums
    x = (SIZE * torch.randn(VECTORS, FEATURES, generator=torch.Generator().manual_seed(3))).bfloat16()
    with torch.no_grad():
        rough = module(x).float()
        exact = module.float()(x.float())
    size = (rough * exact).sum(-1) / exact.square().sum(-1)
    apart = float((size - 1).abs().max())
    assert apart < APART, f"in bf16 vectors are {apart:.2g} longer or shorter: compute the statistics in fp32"


def _in_slot(field: str, slots: Callable[[Formula], SlotFormulas]) -> Callable[[Any, Formula], None]:
    """How parts of a slot are compared: the field of an attention that takes one, and the slots with its formula."""

    def compared(part: Value, formula: Formula) -> None:
        attention = Attention(heads=HEADS, kv_heads=GROUPS).but(**{field: part})
        by_hand = partial(attention_by_hand, slots=slots(partial(formula, part)))
        sublayer_equals_its_twin(decoder_of(attention), attention.kind, by_hand)

    return compared


COMPARED: Mapping[type, Callable[[Any, Formula], None]] = {
    Norm: _norm_equals,
    Mask: _mask_equals,
    Selection: _selection_equals,
    Map: _in_slot("weigh", lambda formula: SlotFormulas(weighed=formula)),
    Combine: _in_slot("combine", lambda formula: SlotFormulas(combined=formula)),
    Term: _in_slot("terms", lambda formula: SlotFormulas(term=formula)),
    Place: _in_slot("place", lambda formula: SlotFormulas(turned=formula)),
    Adjustment: _in_slot("adjust", lambda formula: SlotFormulas(adjusted=formula)),
}
"""Base class of parts -> how one is compared with its formula."""
WORKS: Mapping[type, Callable[[Any, Formula], None]] = {Norm: _norm_work, Map: _work_on_a_score}
"""Base class of parts -> how its work is compared with that of its formula."""
