"""Labels of the changes between two architectures: what changes and of what, as short as tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, takewhile

from anyformer.costs.transition import Keys, Transition
from anyformer.describe import PartSet
from anyformer.describe.path import bare, item_at

Place = tuple[str, ...]
"""Words that lead to the part in which a value stands, the outermost first; none of the model itself."""


def labels(transition: Transition) -> list[str]:
    """A label for every change, no two alike: `feedforward width`, `model width`, `decoder eps`."""
    longer = [_labels(transition, change) for change in transition.changes]
    found = [next(each) for each in longer]
    while alike := {label for label, times in Counter(found).items() if times > 1}:
        found = [next(each) if label in alike else label for each, label in zip(longer, found, strict=True)]
    return found


def joined(labels: Sequence[str]) -> str:
    """`attention heads and kv heads`: words that both begin with are said once; of more than two the number of the others."""
    first, *others = labels
    if len(others) != 1:
        return f"{first} and {len(others)} more" if others else first
    words, more = first.split(), others[0].split()
    return f"{first} and {' '.join(more[len(_common([words[:-1], more[:-1]])) :])}"


def _labels(transition: Transition, change: Sequence[Keys]) -> Iterator[str]:
    """Labels from the shortest to the longest: of the part, or of what holds all of the parts, with more and more of the words
    before it; then of all the places; then with a number."""
    what, places = _what(transition, change[0]), [_place(transition, keys) for keys in change]
    deepest = max(1, *map(len, places))
    for words in range(1, deepest + 1):
        ends = {place[-words:] for place in places}
        yield _said(what, ends if len(ends) == 1 else _holding(places, words))
    for words in range(1, deepest + 1):
        yield _said(what, dict.fromkeys(place[-words:] for place in places))
    everything = [tuple(map(str, keys[:-1])) for keys in change]
    yield _said(what, everything)
    yield from (f"{_said(what, everything)} {number}" for number in count(2))


def exchanged(ours: Iterable[str], theirs: Iterable[str]) -> str:
    """The names that come and those that go or stay: `local beside layer`, `local and global for layer`, `layer without local`;
    nothing where the names are the same."""
    before, after = dict.fromkeys(ours), dict.fromkeys(theirs)
    new, gone, kept = after.keys() - before, before.keys() - after, before.keys() & after
    come, go, stay = (_named([name for name in {**before, **after} if name in some]) for some in (new, gone, kept))
    if not come:
        return f"{stay} without {go}" if go else ""
    return f"{come}{f' for {go}' if go else ''}{f' beside {stay}' if stay else ''}"


def _named(names: Sequence[str]) -> str:
    """`dense, routed and mtp`; of more than three the first two and the number of the others."""
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _what(transition: Transition, keys: Keys) -> str:
    """The name of what changes; of a table of names that changes as a whole, the names."""
    left, right = (item_at(end, keys) for end in transition.resolved)
    if all(isinstance(end, Mapping) and not isinstance(end, PartSet) for end in (left, right)):
        return exchanged(left, right) or str(keys[-1])
    return str(keys[-1])


def _place(transition: Transition, keys: Keys) -> Place:
    """The words of the part that holds a value, without what a path may skip."""
    holds = item_at(transition.start, keys) is not None
    return tuple(bare(transition.start if holds else transition.to, keys).split(".")[:-1])


def _holding(places: Sequence[Place], words: int) -> Iterable[Place]:
    """The last words of what holds all of the places; where that is the model, its parts that have some."""
    common = _common(places)
    return [common[-words:]] if common else dict.fromkeys(place[:1] for place in places)


def _common(rows: Sequence[Sequence[str]]) -> Place:
    """The words with which all rows begin."""
    return tuple(words[0] for words in takewhile(lambda words: len(set(words)) == 1, zip(*rows, strict=False)))


def _said(what: str, places: Iterable[Place]) -> str:
    words = [" ".join(place) or "model" for place in places]
    return f"{' and '.join(words)} {what}".replace("_", " ")
