"""`Data`: which text, which tokenizer, what is held out, and how windows are cut, as one frozen value."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from anyformer.data.tokenizer_specs import BytePairs as BytePairs
from anyformer.data.tokenizer_specs import Bytes as Bytes
from anyformer.data.tokenizer_specs import TokenizerFile as TokenizerFile
from anyformer.data.tokenizer_specs import TokenizerSpec
from anyformer.describe import Value

STDLIB = "python-stdlib"
"""The word in `paths` that stands for the source of the running interpreter's standard library."""

_SUFFIXES = "txt text md rst tex jsonl py pyi c h cc cpp hpp rs go java js ts rb sh sql"
TEXT_GLOBS = tuple(f"*.{suffix}" for suffix in _SUFFIXES.split())
"""Files that are read in a directory when `glob` is empty."""
Path = Annotated[str, Field(min_length=1)]


class Data(Value):
    """Text -> tokens -> batches.

    A text file is one document; so is a line of a `.jsonl` file. Every document is followed by the tokenizer's end-of-text
    token, unless a single document is split by its tail.
    """

    paths: Annotated[tuple[Path, ...], Field(min_length=1)]
    """Text files, `.jsonl` files, directories, or the word `python-stdlib`."""
    glob: tuple[Path, ...] = ()
    """Which files of a directory are read (`*.txt`, `docs/*.md`); empty means the usual suffixes of text and source."""
    field: Annotated[str, Field(min_length=1)] = "text"
    """The field of a `.jsonl` object that holds the text."""
    tokenizer: TokenizerSpec = BytePairs()
    """How text becomes tokens."""
    validation: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.05
    """Fraction of the text that is held out; not used with `validation_paths`."""
    validation_paths: tuple[Path, ...] = ()
    """Held-out text, given like `paths`; a file that is in both is held out."""
    split: Literal["documents", "tail"] | None = None
    """`documents` holds out whole documents by a hash of their text, so that adding documents moves none; `tail` holds out the
    last characters of the text. None: `documents` if there are enough for at least one to be expected, else `tail`."""
    isolate: bool = False
    """Keep attention, positions and targets inside each document of a window."""
    sampling: Literal["epochs", "random"] = "epochs"
    """`epochs`: every window once per epoch, in a seeded order; `random`: windows at random places, with replacement."""

    @model_validator(mode="after")
    def _one_way_to_hold_out(self) -> Data:
        if self.validation_paths and self.split is not None:
            raise ValueError(f"split = {self.split!r} has no meaning beside validation_paths; leave out one of them")
        return self

    def content(self) -> dict[str, Any]:
        """The plain fields that decide the tokens, without those that only decide how windows are cut."""
        return {name: item for name, item in self.plain().items() if name not in ("isolate", "sampling")}
