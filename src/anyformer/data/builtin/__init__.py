"""Records that every machine has, made from the source of the interpreter's standard library in a fixed order; pictures of
shapes and ellipses, which are drawn; scikit-learn's digits; sounds that are synthesised; and questions about walks, of whose
answers some are preferred. `SOURCES`: each by the word that stands for it among the paths of data.

    rows = anyformer.data.rows.rows("python-docstrings")
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from anyformer.data.builtin import (
    branches,
    digits,
    docstrings,
    ellipses,
    modules,
    names,
    questions,
    shapes,
    spans,
    spoken_digits,
    tones,
    walks,
)
from anyformer.data.builtin.source import Builtin

SOURCES: Mapping[str, Builtin] = {
    each.word: each
    for each in (
        docstrings.DOCSTRINGS,
        docstrings.SUMMARIES,
        docstrings.SIMILAR,
        docstrings.JUDGEMENTS,
        docstrings.PREFERENCES,
        docstrings.STEPS,
        docstrings.WORD_ORDER,
        modules.MODULES,
        names.NAMES,
        questions.QUESTIONS,
        spans.SPANS,
        branches.BRANCHES,
        digits.DIGITS,
        ellipses.ELLIPSES,
        spoken_digits.DIGITS_SAID,
        spoken_digits.STRINGS_SAID,
        tones.TONES,
        shapes.SHAPES,
        shapes.SHAPE_BOXES,
        shapes.SHAPES_QUESTIONS,
        walks.WALK_ANSWERS,
        walks.WALK_JUDGEMENTS,
        walks.WALK_PREFERENCES,
    )
}
"""The built-in records by their words; `sentence` says what each holds."""


def longest_sound(paths: Collection[str], most: float) -> float:
    """Seconds that no sound at `paths` lasts longer than, `most` at most: fewer where all of them are built-in records."""
    known = [SOURCES[path].seconds if path in SOURCES else None for path in paths]
    return min(most, max((most if each is None else each for each in known), default=most))


__all__ = ["SOURCES", "Builtin", "longest_sound"]
