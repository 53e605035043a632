"""fp8: codes of 8 bits with a scale per block, row or matrix (DeepSeek-V3, MiniMax-M2, Kimi K2; FBGEMM; MXFP8).

DeepSeek-V3, arXiv 2412.19437, section 3.3; the scale multiplies, although files call it `weight_scale_inv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.finding import gathered, set_aside
from anyformer.huggingface.stored.scaled import Eight, Scaled
from anyformer.huggingface.stored.scheme import FoundWeights, PackedWeight, bare
from anyformer.huggingface.stored.settings import FormatSettings

METHODS = ("fp8", "fbgemm_fp8", "mxfp8")
INERT = ("activation_scale_ub", "fmt", "ignored_layers", "kv_cache_scheme", "scale_fmt")
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
ENDINGS = ("_scale_inv", "_scale")
"""What is added to a weight's name for its scale."""


@dataclass(frozen=True)
class Fp8Matrix:
    """fp8 with blocks of (rows, inputs), or with one scale per row or matrix, whichever the files hold."""

    block: tuple[int, int] | None

    def find(self, files: TensorFiles) -> FoundWeights:
        packed: dict[str, PackedWeight] = {}
        for ending in ENDINGS:
            endings = {"codes": "", "scales": ending}
            holds = {name for name in files.names if files.names.get(name + ending)}
            eight = {name for name in holds if files.dtype(name) in EIGHT_BITS}

            def scheme(stem: str, parts: Mapping[str, str]) -> Scaled:
                return self._scheme(files, parts)

            packed |= dict(gathered(files, "", endings, scheme, eight.__contains__))
        return FoundWeights(packed, set_aside(files))

    def _scheme(self, files: TensorFiles, parts: Mapping[str, str]) -> Scaled:
        codes, scale = Eight(files.dtype(parts["codes"])), files.dtype(parts["scales"])
        whole, scales = files.shape(parts["codes"]), bare(files.shape(parts["scales"]))
        if self.block is not None:
            return Scaled(f"fp8 in blocks of {self.block[0]} x {self.block[1]}", codes, self.block, scale)
        if scales and scales == bare(whole[:-1]):
            return Scaled("fp8 by rows", codes, (1, None), scale)
        return Scaled("fp8 by matrices", codes, (None, None), scale)


def read(settings: FormatSettings) -> Fp8Matrix:
    """The format of a configuration's settings."""
    settings.word("fmt", "e4m3", "e4m3", "float8_e4m3fn", "e5m2", "float8_e5m2")
    settings.word("activation_scheme", "dynamic", "dynamic", "static")
    settings.word("scale_fmt", "float", "float", "ue8m0")
    settings.word("expert_dtype", "fp8", "fp8")
    block = settings("weight_block_size")
    if settings.format == "mxfp8":
        block = block or [1, 32]
    if block is not None and not (
        isinstance(block, list | tuple) and len(block) == 2 and all(type(size) is int and size > 0 for size in block)
    ):
        raise settings.refused("weight_block_size", block, "two whole numbers above 0")
    settings.finish(INERT)
    return Fp8Matrix(None if block is None else (block[0], block[1]))
