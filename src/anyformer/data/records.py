"""`Records`: the base of kinds of data whose examples are rows with fields, such as a source and a target, or a text and a
label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import ColumnType
from anyformer.data.description import Files
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer

Names = Mapping[str, tuple[str, ...]]
"""The classes found in the data, by the column that numbers them."""


class Records(Files):
    """Rows of `.jsonl`, `.json`, `.csv`, `.tsv` or `.parquet` files, each one example. The base of kinds of records.

    A kind says which fields a row must have (`record`), which texts become tokens (`texts`), and which numbers are kept of them
    (`types`, `numbers`).
    """

    skip_bad: Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0, lt=1)] = 0
    """How many records that cannot be used are left out and counted, or which share of all; with more the data is refused."""
    classes: ClassVar[tuple[str, ...]] = ()
    """The columns whose classes are collected from the data, training and held out."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        """The values of a row that count, checked: texts, lists and numbers. `BadRecord` says what is wrong with it."""
        raise NotImplementedError

    def named(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """The classes that a record names, per column of `classes`."""
        return {}

    @property
    def order(self) -> tuple[str, ...]:
        """All classes in the order of the model's outputs, if it is described."""
        return ()

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        """The texts of a record that become tokens, and of which a tokenizer learns."""
        raise NotImplementedError

    def pieces(self, record: Mapping[str, Any], tokenizer: Tokenizer) -> list[str]:
        """The texts whose tokens `numbers` is given: those of `texts`, unless the tokenizer says how a record is written."""
        return self.texts(record)

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        """What a column holds."""
        raise NotImplementedError

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        """The numbers of a record per column; `tokens`: those of its `pieces`, in order."""
        raise NotImplementedError


class Classed(Records):
    """Records that name classes. The base of kinds of such records."""

    classes: ClassVar[tuple[str, ...]] = ("label",)
    labels: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """All classes in the order of the model's outputs; empty: that of its configuration (`id2label`), else of their names."""

    @property
    def order(self) -> tuple[str, ...]:
        return self.labels
