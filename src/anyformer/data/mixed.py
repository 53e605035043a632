"""The corpus of a mixture, from those of its parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from anyformer.data.columns import RecordTable
from anyformer.data.corpus import Corpus, Endless, Mixed, Split
from anyformer.data.kinds.mixture import Mixture
from anyformer.text.errors import DataError


def mixed_corpus(data: Mixture, parts: Mapping[str, Corpus], cache: Path) -> Corpus:
    """The parts together; `DataError` if their classes differ. Its digest tells other weights, and another order of parts."""
    first, *others = parts
    one = parts[first]
    for name in others:
        for column, classes in parts[name].names.items():
            if classes != one.names[column]:
                raise DataError(
                    f"the parts of a mixture have the same classes, and {column} has {_few(one.names[column])} in {first} and "
                    f"{_few(classes)} in {name}: leave out the records of the others, or give each part all of them"
                )
    content = [[parts[part.called].digest, part.weight, part.repeats] for part in data.parts]
    return Corpus(
        directory=cache,
        tokenizer=one.tokenizer,
        train=Mixed("train", {name: _whole(part.train) for name, part in parts.items()}),
        validation=Mixed("validation", {name: _whole(part.validation) for name, part in parts.items()}),
        skipped=tuple(item for part in parts.values() for item in part.skipped),
        digest=hashlib.sha256(json.dumps(content).encode()).hexdigest(),
        sources={path: mark for part in parts.values() for path, mark in part.sources.items()},
        names=one.names,
        parts=parts,
    )


def _whole(split: Split | RecordTable | Mixed | Endless) -> Split | RecordTable:
    assert not isinstance(split, Mixed | Endless), "refused where the mixture is described"
    return split


def _few(classes: tuple[str, ...]) -> str:
    return ", ".join(classes[:5]) + ", ..." * (len(classes) > 5)
