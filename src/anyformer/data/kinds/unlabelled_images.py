"""Images without classes."""

from __future__ import annotations

from typing import Literal

from anyformer.data.kinds.image_records import ImageRecords


class UnlabelledImages(ImageRecords):
    """An image (channels, height, width) per record, and nothing besides; of a directory every file is one."""

    kind: Literal["unlabelled_images"] = "unlabelled_images"
