"""A new weighing and a new combination are one class outside the package, and a mistake in either breaks a contract."""

from __future__ import annotations

import inspect

import pytest
import torch

from anyformer.model.transformer import build
from anyformer.operations import Tally
from anyformer.parts import Attention, Exclusive, MultiTokenWeights, Rotary, Softpick, TalkingHeads, ValueResidual
from anyformer.parts.call.context import Visible
from anyformer.testing.around import decoder_of
from anyformer.testing.contracts import broken
from parts.outside_slots import OutsideExclusive, OutsideIndexer, OutsideTalkingHeads

HEADS = Attention(heads=4, kv_heads=2, place=Rotary())
TALKING, EXCLUSIVE = HEADS.but(weigh=OutsideTalkingHeads()), HEADS.but(outside_exclusive=OutsideExclusive())
INDEXED = HEADS.but(choice=OutsideIndexer(block=2, keep=2))


@pytest.mark.parametrize("attention", [TALKING, EXCLUSIVE, INDEXED], ids=["talking heads", "exclusive", "an indexer"])
def test_it_keeps_every_contract(attention):
    assert broken(decoder_of(*[attention] * 2)) == {}


@pytest.mark.parametrize("part", [OutsideTalkingHeads, OutsideExclusive, OutsideIndexer])
def test_it_is_one_short_class(part):
    assert len(inspect.getsource(part).splitlines()) <= 60


@pytest.mark.parametrize(
    ("outside", "inside", "renamed"),
    [
        (TALKING, HEADS.but(weigh=TalkingHeads()), {}),
        (EXCLUSIVE, HEADS.but(exclusive=Exclusive(strength="learned")), {"outside_strength": "exclusive.weight"}),
    ],
    ids=["talking heads", "exclusive"],
)
def test_it_computes_what_the_one_inside_does(outside, inside, renamed):
    ours, theirs = (build(decoder_of(attention), seed=0) for attention in (outside, inside))
    weights = theirs.state_dict()
    moved = {name: next((name.replace(a, b) for a, b in renamed.items() if a in name), name) for name in ours.state_dict()}
    with torch.no_grad():
        for name in moved.values():
            weights[name] += 0.3 * torch.randn(weights[name].shape, generator=torch.Generator().manual_seed(len(name)))
    ours.load_state_dict({name: weights[there] for name, there in moved.items()})
    theirs.load_state_dict(weights)
    tokens = torch.randint(0, 37, (2, 9), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(tokens), theirs(tokens))


class OfKeys(OutsideTalkingHeads):
    """A mistake: what is said after the softmax is of other keys, the next one among them."""

    kind: str = "of_keys"  # type: ignore[assignment]

    def weights(self, scores_BHTS, allowed, call):
        return super().weights(scores_BHTS, allowed, call).roll(1, -1)


class Unpriced(OutsideTalkingHeads):
    """A mistake: work that nobody declares."""

    kind: str = "unpriced"  # type: ignore[assignment]

    def of_pairs(self, sizes, shape, pairs):
        return Tally()


class OfTheFirst(OutsideExclusive):
    """A mistake: the value of another token."""

    name = "of_the_first"

    def mixed(self, y_BHTU, call):
        call.values = call.values[:, :1].expand_as(call.values)
        return super().mixed(y_BHTU, call)


class OfLaterQueries(MultiTokenWeights):
    """A mistake: the scores of later queries, in the place of earlier ones."""

    kind: str = "of_later_queries"  # type: ignore[assignment]

    def weights(self, scores_BHTS, allowed, call):
        return super().weights(scores_BHTS.flip(2), allowed, call).flip(2)


class OfEverything(Softpick):
    """A mistake: keys that the query does not see."""

    kind: str = "of_everything"  # type: ignore[assignment]

    def weights(self, scores_BHTS, allowed, call):
        return super().weights(scores_BHTS, None, call)


class OfTheNext(ValueResidual):
    """A mistake: the value of the next token."""

    name = "of_the_next"

    def split(self, y_BTHE, side, call):
        other = super().split(y_BTHE, side, call)
        return other if side != "value" else other.roll(-1, 1)


class OfTheFuture(OutsideIndexer):
    """A mistake: blocks are chosen by keys that the query does not see."""

    kind: str = "of_the_future"  # type: ignore[assignment]

    def chosen(self, q_BHTE, memory, visible, where, call):
        return super().chosen(q_BHTE, memory, Visible(), where, call)


@pytest.mark.parametrize(
    ("attention", "contract"),
    [
        (HEADS.but(weigh=OfKeys()), "no_token_sees_a_later_one"),
        (HEADS.but(weigh=Unpriced()), "declared_flops_are_counted"),
        (HEADS.but(of_the_first=OfTheFirst()), "cached"),
        (HEADS.but(choice=OfTheFuture(block=2, keep=2)), "no_token_sees_a_later_one"),
        (HEADS.but(weigh=OfLaterQueries(queries=2, keys=3)), "no_token_sees_a_later_one"),
        (HEADS.but(weigh=OfEverything()), "no_token_sees_a_later_one"),
        (HEADS.but(of_the_next=OfTheNext(variant="layer_a")), "no_token_sees_a_later_one"),
    ],
    ids=[
        "other keys",
        "undeclared work",
        "another token's value",
        "blocks by later keys",
        "later queries",
        "all keys",
        "the next token's value",
    ],
)
def test_a_mistake_breaks_a_contract(attention, contract):
    found = broken(decoder_of(HEADS, attention))
    assert any(contract in name for name in found), sorted(found)
