"""Images with captions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anyformer.data.fields import full_text
from anyformer.data.kinds.image_texts import ImageTexts
from anyformer.data.row import RecordRow


class Captions(ImageTexts):
    """An image and its caption per record; of a directory of images with a `.txt` of the same name beside each, every image
    (`glob = ["*.png"]`)."""

    kind: Literal["captions"] = "captions"
    text: Annotated[str, Field(min_length=1)] = "text"
    """The field that holds the caption; `label` is the name of the directory that an image is in."""

    def said(self, row: RecordRow) -> str:
        return full_text(row, self.text)
