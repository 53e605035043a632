"""In what two arms of a study differ beside a matter that one of them has."""

from __future__ import annotations

from functools import cache

from anyformer.atlas.measured import StudiedArm, studied_arms
from anyformer.atlas.topic import mechanisms


def has(arm: StudiedArm, what: str) -> bool:
    """Whether an arm has a mechanism, or a part of a class, that not all arms of its study have."""
    return what in arm.mechanisms or what in arm.parts


@cache
def differing(study: str, arm: str, than: str, what: str) -> tuple[str, ...]:
    """The other mechanisms in which two arms differ, else classes of parts; none where `what` alone is put in, or exchanged.

    What stands in its place is what it is compared with: a mechanism of the same column of the catalogue, or the only class of
    parts. Classes that differ wherever the study's arms differ in a mechanism come with it.
    """
    arms = {each.name: each for each in studied_arms()[study]}
    one, other = sorted((arms[arm], arms[than]), key=lambda each: not has(each, what))
    known = {each.name: each for each in mechanisms()}
    own = known[what].column if what in known else ""
    replaced = {name for name in other.mechanisms if own and known[name].column == own}
    come = frozenset[str]().union(*(_with(study, name) for name in (what, *replaced)))
    of_replaced = {
        name
        for name in other.mechanisms
        if known[name].part in come and known[name].topic in {known[each].topic for each in replaced}
    }
    of_part = {name for name in one.mechanisms if known[name].part == what}
    if others := (set(one.mechanisms) ^ set(other.mechanisms)) - replaced - of_replaced - of_part - {what}:
        return tuple(sorted(others))
    put_in, left_out = (set(each) - come for each in (one.parts, other.parts))
    rest = put_in ^ left_out
    exchanged = len(rest) == 1 and rest <= left_out and bool(come & set(one.parts))
    return () if exchanged else tuple(sorted(rest))


def _with(study: str, what: str) -> frozenset[str]:
    """Classes of parts in which arms of a study differ wherever they differ in a matter."""
    arms = studied_arms()[study]
    apart = [
        frozenset(one.parts) ^ frozenset(other.parts)
        for one in arms
        for other in arms
        if has(one, what) and not has(other, what)
    ]
    return frozenset.intersection(*apart)
