"""Types of the numbers in a GGUF file: which tensor has which, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.names import stem_of
from anyformer.huggingface.gguf.reader import library

PLAIN: Mapping[torch.dtype, tuple[str, str]] = MappingProxyType(
    {torch.float32: ("F32", "ALL_F32"), torch.float16: ("F16", "MOSTLY_F16"), torch.bfloat16: ("BF16", "MOSTLY_BF16")}
)
"""Type of weights -> the type of tensors, and of the file, that has them."""
IN_BLOCKS = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
"""Types in blocks that the package `gguf` rounds to by itself."""
FILE_TYPES: Mapping[str, str] = MappingProxyType(dict(PLAIN.values()) | {kind: f"MOSTLY_{kind}" for kind in IN_BLOCKS})
"""Type of matrices -> that of the file."""
WIDE = frozenset(
    {
        "ffn_gate_inp", "ffn_gate_inp_shexp", "position_embd", "token_types", "ssm_conv1d", "ssm_conv1d_q", "ssm_conv1d_k",
        "ssm_conv1d_v", "shortconv.conv", "attn_rel_b", "time_mix_first", "time_mix_w1", "time_mix_w2", "time_mix_decay_w1",
        "time_mix_decay_w2", "time_mix_lerp_fused", "ssm_a", "ssm_d",
    }
)  # fmt: skip
"""Tensors that llama.cpp's kernels read in fp32 alone, whatever the type of the file."""


def is_wide(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor stays in fp32: vectors, norms, routers, and what is no weight of a product."""
    return len(shape) < 2 or not name.endswith(".weight") or stem_of(name) in WIDE or stem_of(name).endswith("_norm")


def type_name(name: str, shape: tuple[int, ...], kind: str) -> str:
    """The type of one tensor in a file whose matrices are `kind`: F16 where a row does not fill its blocks."""
    if is_wide(name, shape):
        return "F32"
    gguf = library()
    block, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return kind if shape[-1] % block == 0 else "F16"


def byte_shape(shape: tuple[int, ...], kind: str) -> tuple[int, ...]:
    """The shape of a tensor's bytes."""
    gguf = library()
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return (*shape[:-1], shape[-1] // block * size)


def held_as(tensor: Tensor, kind: str, where: str) -> Tensor:
    """The tensor; refuses a number that the type cannot hold."""
    if kind == "F16" and bool((tensor.half().isinf() & tensor.isfinite()).any()):
        raise HuggingFaceError(
            f"{where} has numbers up to {float(tensor.abs().max()):.3g}, and fp16 ends at 65504: export as bf16 or fp32"
        )
    return tensor


def encoded(tensor: Tensor, kind: str) -> np.ndarray[Any, Any]:
    """A tensor as bytes of a type."""
    plain = next((dtype for dtype, (name, _) in PLAIN.items() if name == kind), None)
    if plain is not None:
        return tensor.to(plain).reshape(tuple(tensor.shape) or (1,)).contiguous().view(torch.uint8).numpy()
    gguf = library()
    bytes: np.ndarray[Any, Any] = gguf.quants.quantize(tensor.float().contiguous().numpy(), gguf.GGMLQuantizationType[kind])
    return bytes
