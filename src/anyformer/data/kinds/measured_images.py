"""Images with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from anyformer.data.columns import ColumnType
from anyformer.data.fields import number_field
from anyformer.data.kinds.image_records import PlainImages
from anyformer.data.records import Names
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer


class MeasuredImages(PlainImages):
    """An image and one or more numbers per record: an age, the middle of a thing, the sides of its box."""

    kind: Literal["measured_images"] = "measured_images"
    values: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] = ("value",)
    """The fields that hold the numbers, in the order of the model's outputs."""

    @model_validator(mode="after")
    def _once(self) -> MeasuredImages:
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"values names a field twice: {', '.join(self.values)}")
        return self

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {"image": self.pixels(row), "values": [number_field(row, name) for name in self.values]}

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"image": self.column, "values": ColumnType("<f8", (len(self.values),))}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"image": record["image"], "values": record["values"]}
