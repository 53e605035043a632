"""The type of numbers in which an export holds its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from anyformer.huggingface.composites import COMPOSITES
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.registry import text_keys
from anyformer.text.beside import CONFIG, Beside

TYPES: Mapping[str, torch.dtype] = MappingProxyType({"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16})
"""Our word -> the type."""


def came_in(beside: Beside) -> torch.dtype | None:
    """The type that the `config.json` beside the weights gives them; None where it says nothing."""
    table = beside.table(CONFIG)
    if not table:
        return None
    if table.get("model_type") in COMPOSITES:
        table = {**text_keys(Config(table)), **{key: value for key, value in table.items() if "dtype" in key}}
    named = str(table.get("dtype") or table.get("torch_dtype")).removeprefix("torch.")
    return next((dtype for dtype in TYPES.values() if str(dtype) == f"torch.{named}"), None)


def in_type(tensors: Iterator[tuple[str, Tensor]], dtype: torch.dtype | None, where: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors with floating-point numbers as `dtype`, None for as they are; refuses a number that it cannot hold."""
    for name, tensor in tensors:
        if dtype is None or not tensor.is_floating_point():
            yield name, tensor
            continue
        made = tensor.to(dtype)
        if dtype == torch.float16 and bool((made.isinf() & tensor.isfinite()).any()):
            raise HuggingFaceError(
                f"{where}: {name} has numbers up to {float(tensor.abs().max()):.3g}, and fp16 ends at 65504: export as bf16 "
                f"or fp32"
            )
        yield name, made
