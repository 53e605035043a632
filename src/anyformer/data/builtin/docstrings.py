"""Functions and their docstrings: a docstring to code and back, docstrings that fit better or worse, sentences near code.

`python-docstrings`: `source` is a docstring's first paragraph, `target` the function without it. `python-summaries`: the
reverse, `target` the first sentence. `python-similar`: a sentence and, as its `positive`, the code that it describes.
`python-preferences`: after the signature, the `chosen` sentence is the function's own, the `rejected` one that of another
function of the same file. `python-word-order`: to a function's name, the `chosen` answer is its first sentence, the `rejected`
one has the same words in another order; `python-judgements`: one of these two, and which it is; `python-steps`: the sentence in
pieces of four words, some of them in another order, and which are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from anyformer.data.builtin.code import Function, functions
from anyformer.data.builtin.source import Builtin, Values, draw, standard_library
from anyformer.data.sources import SourceFile

PIECE = 4
"""Words of a step."""


def _told(source: SourceFile) -> Iterator[Function]:
    return (function for function in functions(source) if function.told)


def _docstrings(source: SourceFile) -> Iterator[Values]:
    for function in _told(source):
        yield function.line, {"source": function.paragraph, "target": function.code}


def _summaries(source: SourceFile) -> Iterator[Values]:
    for function in _told(source):
        yield function.line, {"source": function.code, "target": function.sentence}


def _similar(source: SourceFile) -> Iterator[Values]:
    """Each sentence once in a file, since the others of a batch count as unlike."""
    seen: set[str] = set()
    for function in _told(source):
        if function.sentence not in seen:
            seen.add(function.sentence)
            yield function.line, {"text": function.sentence, "positive": function.code}


def _preferences(source: SourceFile) -> Iterator[Values]:
    told = list(_told(source))
    for place, function in enumerate(told):
        others = sorted({other.sentence for other in told} - {function.sentence})
        if others:
            rejected = others[draw(f"{place} {function.name}", len(others))]
            prompt = f"{function.signature}\nWhat does this function do?"
            asked, answers = {"role": "user", "content": prompt}, (function.sentence, rejected)
            chosen, rejected_ = ([{"role": "assistant", "content": answer}] for answer in answers)
            yield function.line, {"prompt": [asked], "chosen": chosen, "rejected": rejected_}


def _word_order(source: SourceFile) -> Iterator[Values]:
    for function in _told(source):
        words = function.sentence.split()
        moved = sorted(words, key=lambda word: draw(f"{function.name} {word}", 2**32))
        if moved != words:
            prompt = f"What does `{function.name}` do? "
            yield function.line, {"prompt": prompt, "chosen": " ".join(words), "rejected": " ".join(moved)}


def _steps(source: SourceFile) -> Iterator[Values]:
    for function in _told(source):
        words, pieces, labels = function.sentence.split(), list[str](), list[bool]()
        for start in range(0, len(words), PIECE):
            piece = words[start : start + PIECE]
            moved = sorted(piece, key=lambda word: draw(f"{function.name} {word}", 2**32))
            written = moved if draw(f"{function.name} {start}", 2) else piece
            pieces.append(" ".join(written))
            labels.append(written == piece)
        yield function.line, {"prompt": f"What does `{function.name}` do?\n", "completions": pieces, "labels": labels}


def _judgements(source: SourceFile) -> Iterator[Values]:
    """Of every pair one answer, drawn with equal chances."""
    for line, pair in _word_order(source):
        label = bool(draw(f"{line} {pair['prompt']}", 2))
        yield line, {"prompt": pair["prompt"], "completion": pair["chosen" if label else "rejected"], "label": label}


DOCSTRINGS = Builtin(
    "python-docstrings", "Pairs: the docstring of a function of Python's library, and its code.", _docstrings, standard_library
)
SUMMARIES = Builtin(
    "python-summaries", "Pairs: the code of a function, and the first sentence of its docstring.", _summaries, standard_library
)
SIMILAR = Builtin(
    "python-similar",
    "Pairs of like meaning: a docstring's first sentence, and the function's code.",
    _similar,
    standard_library,
)
JUDGEMENTS = Builtin(
    "python-judgements",
    "Judgements: a docstring's first sentence, or its words in another order.",
    _judgements,
    standard_library,
)
PREFERENCES = Builtin(
    "python-preferences",
    "Preferences: for a signature, the function's own docstring before that of another function.",
    _preferences,
    standard_library,
)
WORD_ORDER = Builtin(
    "python-word-order",
    "Preferences: a docstring's first sentence before its words in another order.",
    _word_order,
    standard_library,
)
STEPS = Builtin(
    "python-steps",
    "Steps with labels: such a sentence in pieces, some in another order.",
    _steps,
    standard_library,
)
