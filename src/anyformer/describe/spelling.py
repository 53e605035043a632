"""One table of spellings: a name written in the other of two usual spellings is the name that is known."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

TABLE = (
    (r"(?<=\w)is(?=(e|ed|er|ers|es|ing|able)$|ation)", "iz"),  # quantise, optimiser, initialisation
    (r"(?<=\w)ys(?=(e|ed|er|es|ing)$)", "yz"),  # analyse
    (r"(?<=\w)our(?=(s|ed|ing|less)?$)", "or"),  # colour, neighbours
    (r"(?<=\w)tre(?=s?$)", "ter"),  # centre
    (r"(?<=\w)tred$", "tered"),
    (r"(?<=\w)ll(?=(ed|ing|er)$)", "l"),  # labelled, modelling
    (r"(?<=\w)ogue(?=s?$)", "og"),  # catalogue
    (r"(?<=\w)ence$", "ense"),  # licence
    (r"^grey", "gray"),
    (r"^artefact", "artifact"),
    (r"learnt$", "learned"),
)
"""Parts of words in British spelling, and the same in American spelling. Words are compared in it, and never shown."""


@lru_cache(maxsize=4096)
def in_american(name: str) -> str:
    """A name as it is compared: `optimiser` and `optimizer` are one."""
    return re.sub("[a-z]+", lambda word: _in_american(word[0]), name)


def _in_american(word: str) -> str:
    for british, american in TABLE:
        word = re.sub(british, american, word)
    return word


def spelled(name: str, known: Collection[str]) -> str:
    """The known name that `name` is but for its spelling; `name` itself where it is known, or where none or several are."""
    if name in known:
        return name
    wanted = in_american(name)
    found = [other for other in known if in_american(other) == wanted]
    return found[0] if len(found) == 1 else name


def leads_to(path: str, place: str) -> bool:
    """Whether a path is this place or goes through it, in any spelling: data.tokeniser.vocab leads to data.tokenizer."""
    return in_american(f"{path}.").startswith(f"{in_american(place)}.")
