"""What NVIDIA's Model Optimizer writes: NVFP4, 4-bit codes in blocks of 16 with a scale of 8 bits, or fp8 with one scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.finding import gathered, set_aside
from anyformer.huggingface.stored.scaled import Eight, Fp4, Scaled
from anyformer.huggingface.stored.scheme import FoundWeights
from anyformer.huggingface.stored.settings import FormatSettings

METHODS = ("modelopt", "modelopt_fp4")
INERT = ("config_groups", "exclude_modules", "has_zero_point", "ignore", "kv_cache_quant_algo", "kv_cache_scheme", "producer")
BLOCK = 16
"""Inputs that share a scale."""
SCHEMES: Mapping[str, Scaled] = {
    "nvfp4": Scaled("nvfp4 in blocks of 16", Fp4(), (1, BLOCK), torch.float8_e4m3fn, outer="times"),
    "fp8": Scaled("fp8 by matrices", Eight(torch.float8_e4m3fn)),
}
"""The algorithms that are read."""
ENDINGS: Mapping[str, Mapping[str, str]] = {
    "nvfp4": {"scales": ".weight_scale", "codes": ".weight", "outer": ".weight_scale_2"},
    "fp8": {"scales": ".weight_scale", "codes": ".weight"},
}


@dataclass(frozen=True)
class ModelOptimizer:
    algorithm: str

    def find(self, files: TensorFiles) -> FoundWeights:
        scheme = SCHEMES[self.algorithm]
        return FoundWeights(dict(gathered(files, ".weight", ENDINGS[self.algorithm], lambda *_: scheme)), set_aside(files))


def read(settings: FormatSettings) -> ModelOptimizer:
    """The format of a configuration's settings; those of `hf_quant_config.json` are the same."""
    algorithm = settings.word("quant_algo", "nvfp4" if settings.format == "modelopt_fp4" else "unnamed", *SCHEMES)
    settings.whole("group_size", BLOCK, BLOCK)
    settings.finish(INERT)
    return ModelOptimizer(algorithm)
