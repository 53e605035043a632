"""How the weights of a model are held while it generates: products of few rows wait for the bytes of the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.model import Transformer
from anyformer.parts.embedding.vocabulary import HoldsVocabulary
from anyformer.quantising import HALF, WHOLE, Format, Packed, Quantised, format_of, quantisable, quantised

STORED = "stored"
"""The name for weights as they are."""


def computing(device: torch.device) -> torch.dtype:
    """The type to compute in beside weights of 16 bits or fewer: bf16, but fp32 on a processor without instructions for it."""
    if device.type != "cpu":
        return torch.bfloat16
    known = torch.cpu.get_capabilities()
    return torch.bfloat16 if known.get("avx512_bf16") or known.get("amx_bf16") or known.get("bf16") else torch.float32


def check_weights(weights: str) -> None:
    """Raises `UserError` for a word that `generating` does not know."""
    if weights != STORED:
        format_of(weights)


def generating(model: Transformer, weights: str = STORED, *, compiled: bool = False) -> Transformer:
    """A model whose weights are held for generating, and learn no more: `model` itself, changed, or for few bits another one.

    `weights`: as they are stored, `fp32`, `bf16`, or a format of 8 or 4 bits for the matrices of layers, beside 16 bits for all
    others. `compiled`: a compiler is to see plain matrices. Otherwise all is computed in fp32 beside fp32 weights, and beside
    others as `computing` says, whatever they are stored in: few rows wait for the bytes of the weights. Raises `UserError` for
    a format that there is not, and for a model in few bits that is to be in others.
    """
    if weights != STORED:
        model = _in_format(model, format_of(weights))
    return model.requires_grad_(False) if compiled else _laid_out(model)


def _in_format(model: Transformer, format: Format) -> Transformer:
    """The model with its weights in a format."""
    if not format.whole:
        return quantised(model, format)[0]
    if any(isinstance(value, Quantised) for value in model.parameters()):
        raise UserError(f"this model's matrices are in few bits already, not to be had as {format.name}: leave --weights out")
    return model.to(WHOLE[format.bits])


def _laid_out(model: Transformer) -> Transformer:
    """The model with each weight as products of few rows read it fastest."""
    whole = all(value.dtype == torch.float32 and not isinstance(value, Quantised) for value in model.parameters())
    dtype = torch.float32 if whole else computing(model.device)
    matrices, held = quantisable(model), dict[int, nn.Parameter]()
    for name, module in model.named_modules():
        for leaf, value in list(module.named_parameters(recurse=False)):
            multiplied = isinstance(module, HoldsVocabulary) or f"{name}.{leaf}" in matrices
            if id(value) not in held:
                held[id(value)] = nn.Parameter(_held(value.detach(), dtype, multiplied), requires_grad=False)
            setattr(module, leaf, held[id(value)])
    return model


def _held(value: Tensor, dtype: torch.dtype, multiplied: bool) -> Tensor:
    """One weight; `multiplied`: matrices of layers, and tables whose rows are looked up."""
    if isinstance(value, Quantised):
        return Packed(value.planes, value.format, tuple(value.shape), dtype)
    if not multiplied or value.dim() < 2:
        return value.to(dtype)
    if value.dtype == torch.bfloat16 and dtype == torch.float32:
        return Packed.of(value, HALF).to(dtype)
    value = value.to(dtype)
    if value.device.type == "cpu" and dtype == torch.float32 and value.dim() == 2 and value.shape[0] > value.shape[1]:
        # Column by column: x W^T then adds up rows of W^T, which streams faster than a dot product for each output.
        return value.T.contiguous().T
    return value
