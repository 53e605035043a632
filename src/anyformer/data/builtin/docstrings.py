"""Functions and their docstrings: a docstring to code and back, docstrings that fit better or worse, sentences near code.

`python-docstrings`: `source` is a docstring's first paragraph, `target` the function without it. `python-summaries`: the
reverse, `target` the first sentence. `python-similar`: a sentence and, as its `positive`, the code that it describes.
`python-preferences`: after the signature, the `chosen` sentence is the function's own, the `rejected` one that of another
function of the same file. `python-judgements`: one of the two, and which it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from anyformer.data.builtin.code import Function, functions
from anyformer.data.builtin.source import Builtin, Values, draw, standard_library
from anyformer.data.sources import SourceFile


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


def _judgements(source: SourceFile) -> Iterator[Values]:
    """Of the pairs of preferences one answer each, drawn with equal chances."""
    for line, pair in _preferences(source):
        desirable = bool(draw(f"{line} {pair['prompt'][0]['content']}", 2))
        answer = pair["chosen"] if desirable else pair["rejected"]
        yield line, {"prompt": pair["prompt"], "completion": answer, "label": desirable}


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
    "Judgements: for a signature, a function's docstring, and whether it is this function's.",
    _judgements,
    standard_library,
)
PREFERENCES = Builtin(
    "python-preferences",
    "Preferences: for a signature, the function's own docstring before that of another function.",
    _preferences,
    standard_library,
)
