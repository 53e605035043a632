"""The formats of weights in few bits that are read, by the `quant_method` of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from anyformer.describe import did_you_mean
from anyformer.huggingface.config import FEW_BITS, shown
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.stored import awq, bitsandbytes, compressed, fp8, gptq, mxfp4, nvfp4
from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.scheme import FoundWeights
from anyformer.huggingface.stored.settings import REMEDY, FormatSettings

MODULES = (fp8, mxfp4, nvfp4, compressed, gptq, awq, bitsandbytes)


class StoredFormat(Protocol):
    """One format with its settings."""

    def find(self, files: TensorFiles) -> FoundWeights:
        """The weights that are held in few bits; raises `HuggingFaceError` where a tensor of one is missing."""


READERS: Mapping[str, Callable[[FormatSettings], StoredFormat]] = {
    method: each.read for each in MODULES for method in each.METHODS
}
"""`quant_method` -> the function that reads the settings."""


def format_of(table: Mapping[str, Any], where: str) -> StoredFormat | None:
    """The format that a configuration names; None where the weights are plain. Refuses one that is not known."""
    settings = next((table[key] for key in FEW_BITS if table.get(key)), None)
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise HuggingFaceError(f"{where}: quantization_config should be a table of keys, got {shown(settings)}")
    method = settings.get("quant_method") or _unnamed(settings)
    if not isinstance(method, str) or method not in READERS:
        hint = did_you_mean(str(method), sorted(READERS), "docs/huggingface.md")
        raise HuggingFaceError(f"{where}: the weights are stored as {shown(method)}, which is not read here{hint}; {REMEDY}")
    return READERS[method](FormatSettings(settings, where, str(method)))


def _unnamed(settings: Mapping[str, Any]) -> str:
    """The method of settings that name none, as older bitsandbytes and compressed-tensors wrote them."""
    if settings.get("load_in_4bit") or settings.get("load_in_8bit"):
        return "bitsandbytes"
    return "compressed-tensors" if "config_groups" in settings else "unnamed"
