"""Tokenizers that somebody else wrote: stages that make texts ever longer are refused, and a library that gives up is told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tokenizers

from anyformer.text.errors import DataError

LONGER = 64
"""How many times longer a text may become by all stages of a normaliser or decoder together: published ones make it three
times as long at most."""
STAGES = 1_000
CONTENT = 1_000
"""Characters that a stage may put in the place of one."""
_PUT = frozenset({"content", "prepend"})
"""The keys of what a stage puts in."""
_PLAIN = {"type": "BPE", "vocab": {}, "merges": []}
_LETTERS = "aA 0.\n▁é"


@contextmanager
def library_limits() -> Iterator[None]:
    """Say in words where the tokenizers library gives up on a text, which it does by a panic."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # no Exception, and no class that can be imported
            raise
        raise DataError(
            f"the tokenizers library gives up on this text ({str(error)[:200]}): a regular expression of the tokenizer takes "
            "longer and longer on it; mend the tokenizer.json"
        ) from None


def check_growth(table: Mapping[str, Any]) -> None:
    """Refuse a definition whose stages, one after the other, make a text more than `LONGER` times as long."""
    for place, inner in (("normalizer", "normalizers"), ("decoder", "decoders")):
        stages = [stage for stage in _stages(table.get(place), inner) if _puts(stage)]
        if len(stages) > STAGES:
            raise DataError(f"{place} has {len(stages):,} stages, and at most {STAGES:,} are run; mend the tokenizer.json")
        if any(stage.get("pattern") == {"String": ""} for stage in stages):
            raise DataError(f"{place} puts something in the place of nothing, which is everywhere; mend the tokenizer.json")
        _check(place, stages)


def _stages(stage: Any, inner: str) -> Iterator[Mapping[str, Any]]:
    """A stage without others in it."""
    if isinstance(stage, Mapping):
        if stage.get("type") == "Sequence":
            for each in stage.get(inner) or ():
                yield from _stages(each, inner)
        else:
            yield stage


def _puts(stage: Mapping[str, Any]) -> bool:
    """Whether the library reads it as a stage that puts something in: it takes a `type` that it does not know for any that has
    these keys. `Strip` takes its content away."""
    return stage.get("type") != "Strip" and not _PUT.isdisjoint(stage)


def _check(place: str, stages: list[Mapping[str, Any]]) -> None:
    """Run them over a text of all that they look for and put in."""
    said = "".join(text[:CONTENT] for stage in stages for text in _texts(stage))
    text = "".join(dict.fromkeys(said)) + said[: 20 * CONTENT] + _LETTERS
    most = LONGER * len(text)
    for stage in stages:
        if len(content := str(stage.get("content", stage.get("prepend", "")))) > CONTENT:
            raise DataError(f"{place} puts {len(content):,} characters in the place of others, and at most {CONTENT:,} may be")
        text = _run(stage, text)
        if len(text) > most:
            raise DataError(f"{place} makes a text more than {LONGER} times as long, stage by stage; mend the tokenizer.json")


def _texts(stage: Mapping[str, Any]) -> Iterator[str]:
    pattern = stage.get("pattern")
    yield from map(str, (stage.get("content", ""), stage.get("prepend", "")))
    yield from map(str, pattern.values() if isinstance(pattern, Mapping) else ())


def _run(stage: Mapping[str, Any], text: str) -> str:
    normalizer = {**stage, "type": "Prepend" if "prepend" in stage else "Replace"}
    made = tokenizers.Tokenizer.from_str(json.dumps({"version": "1.0", "normalizer": normalizer, "model": _PLAIN}))
    with library_limits():
        return str(made.normalizer.normalize_str(text)) if made.normalizer is not None else text
