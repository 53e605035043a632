"""Weights in few bits as llama.cpp rounds them itself: its K-quants, by the package `llama_cpp`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyformer.huggingface.errors import HuggingFaceError

LARGE_BLOCKS = (
    "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_M",
)  # fmt: skip
"""Types of files that llama.cpp's own quantiser makes, without a table of importance."""


def quantiser() -> Any:
    """The package with llama.cpp's library."""
    try:
        return importlib.import_module("llama_cpp")
    except ImportError:
        raise HuggingFaceError(
            "these types are rounded to by llama.cpp itself, whose package is not installed: pip install llama-cpp-python; "
            "q8_0, q4_0, q4_1, q5_0 and q5_1 need no more than anyformer[gguf]"
        ) from None


@contextmanager
def unrounded(partial: Path) -> Iterator[Path]:
    """The path of the file that is rounded, which goes when it is."""
    quantiser()
    path = partial.with_name(f"{partial.stem}-unrounded{partial.suffix}")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def rounded(plain: Path, to: Path, kind: str) -> None:
    """Round one file to another of this type."""
    llama_cpp = quantiser()
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    if llama_cpp.llama_model_quantize(str(plain).encode(), str(to).encode(), options):
        raise HuggingFaceError(f"llama.cpp's quantiser refuses the model as {kind}, and has printed why; take another type")
