"""Questions about the models that were opened: which text, which path, and the worker that answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from anyformer.describe import UserError, did_you_mean
from anyformer.exploring import opened, opened_features
from anyformer.exploring.desk import Desk
from anyformer.exploring.parts import PartPlaces
from anyformer.exploring.problems import UnknownNameError
from anyformer.exploring.question import Query, check_keys
from anyformer.exploring.tree import tree
from anyformer.exploring.workshop import WAIT, Workshop
from anyformer.model import Architecture
from anyformer.model.value_paths import watchable
from anyformer.requirements.needs import needs_activations

LONGEST = 4000
"""Letters of a text at most."""
NEEDS = "a model is opened by torch: pip install torch"
ASKED = ("text", "against", "wanted", "other", "position")
"""What may be said of a text."""
More = Callable[[str, Query], tuple[Any, ...]]
"""What a query says further of a model, from its path."""
_WHOLE = re.compile(r"-?[0-9]{1,8}")
_LAYER = re.compile(r"(\w+)\.layer\[(\d+)\]\.(.*)")


class OpeningDesk:
    """Answers about trained models by their path on the command line."""

    def __init__(self, desk: Desk, wait: float = WAIT) -> None:
        self.desk, self.workshop = desk, Workshop(NEEDS, wait)

    def values(self, query: Query) -> dict[str, Any]:
        """Every value that can be watched in a model of an architecture, with the part and the layer in which it is."""
        check_keys(query, ("of",))
        return {"values": values_of(self.desk.architecture(_given(query, "of")))}

    def reading(self, query: Query) -> dict[str, Any]:
        """Tokens, lens and heads of a text."""
        return self._asked(query, opened.reading)

    def attention(self, query: Query) -> dict[str, Any]:
        """Attention weights at a path."""
        return self._asked(query, opened.attention, path=self._path)

    def strongest(self, query: Query) -> dict[str, Any]:
        """A token's value at a path."""
        return self._asked(query, opened.strongest, path=self._path)

    def patched(self, query: Query) -> dict[str, Any]:
        """One text patched into another."""
        _given(query, "against")
        return self._asked(query, opened.patched)

    def samples(self, query: Query) -> dict[str, Any]:
        """What the checkpoints of a run write."""
        return self._asked(query, opened.samples)

    def dictionaries(self, query: Query) -> dict[str, Any]:
        """The sparse dictionaries that were opened, and whether they fit a model."""
        check_keys(query, ("of",))
        of = self._opened(query)
        found = tuple((each, checkpoints_of(each)) for each in self.desk.opened if self._is_dictionary(each))
        kept = checkpoints_of(of)
        return self.workshop.ask(("dictionaries", of, kept, found), opened_features.dictionaries, of, kept, found)

    def features(self, query: Query) -> dict[str, Any]:
        """The features of a dictionary that are active at a token."""
        return self._asked(query, opened_features.features, dictionary=self._dictionary)

    def feature(self, query: Query) -> dict[str, Any]:
        """Where a feature of a dictionary is active."""
        return self._asked(query, opened_features.feature, dictionary=self._dictionary, feature=_feature)

    def start(self) -> None:
        """Load in the worker what looking into a model takes, where one may be looked into."""
        if any(Path(of).is_dir() for of in self.desk.opened):
            self.workshop.start(opened.ready)

    def close(self) -> None:
        """End the worker."""
        self.workshop.close()

    def _asked(self, query: Query, work: Callable[..., dict[str, Any]], **more: More) -> dict[str, Any]:
        check_keys(query, ("of", *ASKED, *more))
        of = self._opened(query)
        given = [_text(query), *(each for said in more.values() for each in said(of, query))]
        kept = checkpoints_of(of)
        return {"of": of, **self.workshop.ask((work.__name__, of, kept, *given), work, of, kept, *given)}

    def _opened(self, query: Query) -> str:
        """The model that a query is about."""
        of = _given(query, "of")
        if of not in (known := [*self.desk.architectures, *self.desk.runs.opened.every]):
            raise UnknownNameError(f"of: {of[:200]!r} was not opened{did_you_mean(of, known)}")
        if not Path(of).exists():
            why = "has no weights here: name a run, a checkpoint or a directory with weights on the command line"
            raise UserError(f"of: {of} {why}")
        return of

    def _path(self, of: str, query: Query) -> tuple[str]:
        if (at := _given(query, "path")) not in (paths := watchable(self.desk.architecture(of))):
            raise UserError(f"path: no value is called {at[:200]!r}{did_you_mean(at, paths)}")
        return (at,)

    def _dictionary(self, of: str, query: Query) -> tuple[str, Sequence[str]]:
        found, known = _given(query, "dictionary"), [each for each in self.desk.opened if self._is_dictionary(each)]
        if found not in known:
            raise UnknownNameError(f"dictionary: {found[:200]!r} is none that was opened{did_you_mean(found, known)}")
        return found, checkpoints_of(found)

    def _is_dictionary(self, of: str) -> bool:
        """Whether a sparse dictionary with weights was opened."""
        if of not in self.desk.architectures or not Path(of).exists():
            return False
        try:
            needs_activations("sae", self.desk.architecture(of))
        except ValueError:
            return False
        return True


def _feature(of: str, query: Query) -> tuple[int]:
    if not _WHOLE.fullmatch(number := _given(query, "feature")):
        raise UserError(f"feature: should be a whole number, got {number[:40]!r}")
    return (int(number),)


def _text(query: Query) -> opened.OpenedText:
    """The text of a query, and what is asked of it: what is left out or empty has its default."""
    against, wanted, other = (_given(query, key) if any(query.get(key, ())) else None for key in ("against", "wanted", "other"))
    position = next(iter(query.get("position", ())), "") or "-1"
    if not _WHOLE.fullmatch(position):
        raise UserError(f"position: should be a whole number, got {position[:40]!r}")
    return opened.OpenedText(_given(query, "text"), against, wanted, other, int(position))


def values_of(architecture: Architecture) -> list[dict[str, Any]]:
    """The values of a model of an architecture by their paths, in the order computed."""
    places = PartPlaces(tree(architecture))
    found = []
    for path, each in watchable(architecture).items():
        layer, place = _in_description(path, architecture)
        found.append(
            {
                "path": path, "letters": each.letters, "about": each.about, "sizes": dict(each.sizes), "layer": layer,
                # The target has the source's embedding where it has none of its own.
                "part": places.holder(place) or "embedding",
            }
        )  # fmt: skip
    return found


def _in_description(path: str, architecture: Architecture) -> tuple[int | None, str]:
    """The number of the layer of a value, and the address in the description: `decoder.layer[3].attention.key` is in
    `decoder.local.attention.key`."""
    match = _LAYER.match(path)
    if match is None or match[1] not in architecture.stacks:
        return None, path
    number = int(match[2])
    return number, f"{match[1]}.{architecture.stacks[match[1]].layers[number]}.{match[3]}"


def checkpoints_of(path: str) -> Sequence[str]:
    """The names of the checkpoints that a run keeps, in order."""
    return tuple(sorted(each.name for each in (Path(path) / "checkpoints").glob("step-*")))


def _given(query: Query, key: str) -> str:
    found = query.get(key, [""])[0]
    if not found:
        raise UserError(f"{key}: say which, as in {key}=...")
    if len(found) > LONGEST:
        raise UserError(f"{key}: at most {LONGEST:,} letters, got {len(found):,}")
    return found
