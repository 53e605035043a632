"""Images without classes."""

from __future__ import annotations

from typing import Literal

from anyformer.data.kinds.image_records import PlainImages


class UnlabelledImages(PlainImages):
    """An image (channels, height, width) per record, whatever else the record has; of a directory every file is one."""

    kind: Literal["unlabelled_images"] = "unlabelled_images"
