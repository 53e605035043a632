"""Fills in the tables of `docs/reference/protocol.md` from the bodies that the server reads.

python docs/make_serve.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from page_text import filled, prose, table, write

from anyformer.describe import Value
from anyformer.describe.docstrings import field_docstrings
from anyformer.serving.bodies import INERT, REFUSED, ChatBody, ChoiceBody, CompletionBody

PAGE = Path(__file__).parent / "reference" / "protocol.md"


def fields(kind: type[Value], without: type[Value] = Value) -> Iterator[tuple[str, str]]:
    """The fields of a body and what they do, but for those of another."""
    said = field_docstrings(kind)
    return ((f"`{name}`", " ".join(said[name].split())) for name in kind.model_fields if name not in without.model_fields)


def others() -> Iterator[tuple[str, str]]:
    """What is not honoured, by what to do instead."""
    for remedy in dict.fromkeys(remedy for _, remedy in REFUSED.values()):
        names = ", ".join(f"`{name}`" for name, (_, its) in REFUSED.items() if its == remedy)
        yield names, remedy


def pages() -> dict[Path, str]:
    """The page as of today."""
    tables = {
        "both": table(("field of both", ""), fields(ChoiceBody)),
        "completions": table(("of completions alone", ""), fields(CompletionBody, ChoiceBody)),
        "chats": table(("of chats alone", ""), fields(ChatBody, ChoiceBody)),
        "others": table(("not honoured", "instead"), others()),
        "inert": prose(", ".join(f"`{name}`" for name in INERT)),
    }
    return filled((PAGE,), tables)


if __name__ == "__main__":
    write(pages())
