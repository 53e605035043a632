"""Answers that the package was shipped with, so that the usual questions are answered fast the first time too.

`make answers` writes them. They stand under the same digests as those of the user's cache, into which the package's own files
enter: after any change of these they are passed over, never told.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anyformer.cache.code import SHIPPED
from anyformer.cache.folder import opened
from anyformer.files import writing


def shipped(key: str, archive: Path = SHIPPED) -> Any:
    """What was shipped under a digest; None if there is nothing, or not what was written."""
    try:
        with zipfile.ZipFile(archive) as file:
            return opened(file.read(key).decode())
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def ship(sealed: Iterable[tuple[str, str]], archive: Path = SHIPPED) -> None:
    """Write sealed texts by digest, the same bytes whenever they are written."""
    with writing(archive) as partial, zipfile.ZipFile(partial, "w") as file:
        for key, text in sorted(sealed):
            file.writestr(zipfile.ZipInfo(key), text, zipfile.ZIP_DEFLATED, 9)
