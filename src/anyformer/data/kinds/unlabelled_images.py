"""Images alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from anyformer.data.columns import ColumnType
from anyformer.data.kinds.image_records import PlainImages
from anyformer.data.records import Names
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer


class UnlabelledImages(PlainImages):
    """An image per record, whatever else the record has; of a directory every file is one."""

    kind: Literal["unlabelled_images"] = "unlabelled_images"

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {"image": self.pixels(row)}

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"image": self.column}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"image": record["image"]}
