"""`Data`, the base of every kind of data as a frozen value; `Files`, of those in files; and `Text`: how windows are cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from anyformer.data.compressed import SUFFIXES as COMPRESSED
from anyformer.data.tokenizer_specs import BytePairs, Bytes, TokenizerSpec
from anyformer.describe import Registry, Value
from anyformer.stores import check_no_secrets
from anyformer.text.specials import Specials

if TYPE_CHECKING:
    from anyformer.data.columns import Record
    from anyformer.data.pictured import Pictured
    from anyformer.model import Architecture
    from anyformer.sound.heard import Heard

STDLIB = "python-stdlib"
"""The word in `paths` that stands for the source of the running interpreter's standard library."""

_SUFFIXES = "txt text md rst tex jsonl py pyi c h cc cpp hpp rs go java js ts rb sh sql"
_PACKED = tuple(f"*.{suffix}{packed}" for suffix in ("txt", "md", "jsonl") for packed in COMPRESSED)
TEXT_GLOBS = (*(f"*.{suffix}" for suffix in _SUFFIXES.split()), "*.parquet", *_PACKED)
"""Files that are read in a directory when `glob` is empty."""
Path = Annotated[str, Field(min_length=1)]


def usual_tokenizer(architecture: Architecture) -> BytePairs | Bytes:
    """Bytes if the vocabulary is small, else byte pairs."""
    vocab = min(architecture.vocabularies.values(), default=0)
    return BytePairs(vocab=vocab) if vocab > 300 else Bytes()


class Data(Value):
    """Examples, and the tokenizer of their texts. The base of every kind of data."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    tokenizer: TokenizerSpec = BytePairs()
    """How text becomes tokens."""

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """The data at `paths` as it suits an architecture, where nobody says more: bytes if the vocabulary is small, else byte
        pairs."""
        return cls.parse({"paths": list(paths), "tokenizer": usual_tokenizer(architecture).plain()})

    @property
    def places(self) -> tuple[str, ...]:
        """Where all of it is: its paths."""
        raise NotImplementedError

    @property
    def holds_out(self) -> bool:
        """Whether a share of it is held out."""
        raise NotImplementedError

    @property
    def components(self) -> Mapping[str, Data]:
        """The data that this is made of, by name: of one kind; itself, under an empty name, if it is no mixture."""
        raise NotImplementedError

    @property
    def of_any_length(self) -> Self:
        """The data as it is asked at another length than in training: without bounds of its own on its examples."""
        return self

    def heard(self, record: Record) -> Heard | None:
        """The sound of a prepared record, if it has one."""
        return None

    def pictured(self, record: Record) -> Pictured | None:
        """The image of a prepared record, if it has one."""
        return None

    @property
    def unused(self) -> tuple[str, ...]:
        """The fields that only decide how batches are cut, and none of the prepared numbers."""
        return ()


class Files(Data):
    """Examples in files: where they are, and what is held out. The base of every kind of data but mixtures."""

    paths: Annotated[tuple[Path, ...], Field(min_length=1)]
    """Files, directories, URLs (`s3://`, `gs://`, ...), or the words of what comes with Python (`anyformer data --help` lists
    them); or the one place of prepared data."""
    glob: tuple[Path, ...] = ()
    """Which files of a directory are read (`*.txt`, `docs/*.md`); empty means the usual suffixes of this kind."""
    validation: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.05
    """Fraction of the examples that is held out; not used with `validation_paths`."""
    validation_paths: tuple[Path, ...] = ()
    """Held-out examples, given like `paths`; a file that is in both is held out."""

    @field_validator("paths", "validation_paths")
    @classmethod
    def _no_secrets(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            check_no_secrets(path)
        return paths

    @property
    def places(self) -> tuple[str, ...]:
        return self.paths

    @property
    def holds_out(self) -> bool:
        return bool(self.validation)

    @property
    def components(self) -> Mapping[str, Files]:
        return {"": self}

    @property
    def special(self) -> Specials:
        """The special tokens that the data itself needs."""
        return Specials()

    def content(self) -> dict[str, Any]:
        """The plain fields that decide what is prepared."""
        return {name: item for name, item in self.plain().items() if name not in self.unused}


class Text(Files):
    """Running text -> tokens -> windows.

    A text file is one document; so is a line of a `.jsonl` file and a row of a `.parquet` file. Files whose names end in
    `.gz`, `.bz2`, `.xz` or `.zst` are decompressed. Around every document stands what the tokenizer puts around a
    text (`<s>`), and behind it the end-of-text token where it puts nothing there, unless a single document is split by its
    tail. Objectives that put it around rows, such as `masked`, read documents with the end alone.
    """

    kind: Literal["text"] = "text"
    field: Annotated[str, Field(min_length=1)] = "text"
    """The field of a `.jsonl` object, or of a row of Parquet, that holds the text."""
    split: Literal["documents", "tail"] | None = None
    """`documents` holds out whole documents by a hash of their text, so that adding documents moves none; `tail` holds out the
    last characters of the text. None: `documents` if there are enough for at least one to be expected, else `tail`."""
    isolate: bool = False
    """Keep attention, positions and targets inside the documents of a window."""
    sampling: Literal["epochs", "random"] = "epochs"
    """`epochs`: every window once per epoch, in a seeded order; `random`: windows at random places, with replacement."""

    @model_validator(mode="after")
    def _one_way_to_hold_out(self) -> Text:
        if self.validation_paths and self.split is not None:
            raise ValueError(f"split = {self.split!r} has no meaning beside validation_paths; leave out one of them")
        return self

    @property
    def unused(self) -> tuple[str, ...]:
        return ("isolate", "sampling")
