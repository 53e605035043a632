"""The one door for files of images: named formats, so many pixels, regular files, and every failure of a decoder an error for
people. By Pillow (the extra `images`)."""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from os.path import exists, isfile  # which no name is too long for, and no NUL
from pathlib import Path
from typing import TYPE_CHECKING

from anyformer.describe import UserError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""The formats that are read, as Pillow calls them: none of them starts another program, as EPS does."""
PIXELS = 2**25
"""Pixels of an image at most: its decoders hold up to four copies of four bytes each."""
_SCANS = 256
"""Passes over a JPEG at most: each takes the time of all of its pixels, and ten bytes of the file. Usual are 1 to 11."""
_SCAN = b"\xff\xda"
"""What a pass begins with; these bytes stand nowhere within one."""
_AGAIN = "save it again as PNG"


class ImageError(UserError):
    """A file is no image that is read; the `path` (None of bytes), the `reason` and the `remedy` stand apart."""

    def __init__(self, path: Path | None, reason: str, remedy: str) -> None:
        self.path, self.reason, self.remedy = path, reason, remedy
        super().__init__(f"{path or 'an image in bytes'}: {reason}; {remedy}")


def read_image(source: Path | bytes, mode: str | None) -> Image.Image:
    """The image of a file, or of a file's bytes, the first if it has several, upright, its channels as Pillow's `mode` has
    them; None: as they are."""
    path = None if isinstance(source, bytes) else source
    if path is not None and not isfile(path):
        raise ImageError(path, "is no regular file" if exists(path) else "no such image", "give the path of a file")
    if find_spec("PIL") is None:
        raise ImageError(path, "images are read by Pillow, which is not installed", "pip install 'anyformer[images]'")
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes that are refused below, and of damaged facts beside the pixels
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS) as image:
                _check(path, source, image)
                image.load()
                ImageOps.exif_transpose(image, in_place=True)
                return image if mode in (None, image.mode) else image.convert(mode)
    except UserError:
        raise
    except UnidentifiedImageError:
        raise ImageError(path, f"no whole image of a format that is read ({', '.join(FORMATS)})", _AGAIN) from None
    except Image.DecompressionBombError:
        raise ImageError(path, f"has more than {PIXELS:,} pixels", "scale it down") from None
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror or error})", _AGAIN) from None
    except Exception as error:  # decoders raise whatever their bytes lead them to: ValueError, KeyError, struct.error, ...
        raise ImageError(path, f"damaged ({type(error).__name__}: {error})", _AGAIN) from None


def _check(path: Path | None, source: Path | bytes, image: Image.Image) -> None:
    """Refuse what would take much memory or time, by what the file says of itself."""
    if image.width * image.height > PIXELS:
        size = f"{image.width:,} x {image.height:,}"
        raise ImageError(path, f"has {size} pixels, and {PIXELS:,} is the most", "scale it down")
    if image.format in ("JPEG", "MPO") and (scans := _scans(source)) > _SCANS:
        raise ImageError(path, f"is a JPEG of {scans:,} passes, and {_SCANS} is the most", _AGAIN)


def _scans(source: Path | bytes) -> int:
    if isinstance(source, bytes):
        return source.count(_SCAN)
    count, held = 0, b""
    with source.open("rb") as file:
        while block := file.read(2**20):
            count += (held + block).count(_SCAN)
            held = block[-1:]
    return count
