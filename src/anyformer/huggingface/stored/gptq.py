"""GPTQ: whole numbers in groups of inputs with a scale and a zero point, packed along the inputs (arXiv 2210.17323)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.finding import gathered, set_aside
from anyformer.huggingface.stored.numbers import whole_numbers, words_of
from anyformer.huggingface.stored.scheme import FoundWeights, Plane, Shape, StoredTensor, filled, groups_of
from anyformer.huggingface.stored.settings import FormatSettings

METHODS = ("gptq",)
INERT = (
    "act_group_aware", "backend", "batch_size", "block_name_to_quantize", "cache_block_outputs", "damp_auto_increment",
    "damp_percent", "dataset", "disable_exllama", "exllama_config", "is_marlin_format", "lm_head", "max_input_length", "meta",
    "method", "model_file_base_name", "model_name_or_path", "model_seqlen", "modules_in_block_to_quantize",
    "module_name_preceding_first_block", "mse", "offload_to_disk", "pad_token_id", "static_groups", "sym", "tokenizer",
    "true_sequential", "use_cuda_fp16", "use_exllama",
)  # fmt: skip
"""Keys of how it was made and of kernels. `desc_act` is in the files, as `g_idx`."""
BITS = (2, 3, 4, 8)
ENDINGS = {"codes": ".qweight", "zeros": ".qzeros", "scales": ".scales", "order": "?.g_idx"}


@dataclass(frozen=True)
class GptqMatrix:
    """A matrix (O, I) as words (I bits / 32, O): x = scale (code - zero), scales (groups, O), zeros in words
    (groups, O bits / 32).

    Version 1 stores zero - 1, as many bits as there are. `g_idx` holds the group of each input, where inputs were taken in
    another order than theirs.
    """

    bits: int
    group: int
    first: int
    """What a stored zero point of 0 stands for: 1 in version 1, 0 in version 2."""
    ordered: bool

    @property
    def name(self) -> str:
        groups = "one group" if self.group == -1 else f"groups of {self.group}"
        return f"int{self.bits} of GPTQ in {groups}"

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        shape = parts["codes"].shape
        if len(shape) != 2 or shape[0] * 32 % self.bits:
            raise ValueError(f"words should have the shape (inputs * {self.bits} / 32, outputs), and have {shape}")
        return shape[1], shape[0] * 32 // self.bits

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        outputs, inputs = whole
        groups = groups_of(inputs, self.group)
        planes = {
            "codes": ((words_of(inputs, self.bits), outputs), torch.int32),
            "zeros": ((groups, words_of(outputs, self.bits)), torch.int32),
            "scales": ((groups, outputs), torch.float16),
        }
        return planes | ({"order": ((inputs,), torch.int32)} if self.ordered else {})

    def restored(self, parts: Mapping[str, StoredTensor], whole: Shape, dtype: torch.dtype) -> Tensor:
        outputs, inputs = whole
        words, scales = parts["codes"].read(), parts["scales"].read().float()
        zeros = (whole_numbers(parts["zeros"].read(), self.bits, outputs).int() + self.first) % 2**self.bits
        group = (
            parts["order"].read().long() if self.ordered else torch.arange(inputs) // (inputs if self.group < 0 else self.group)
        )
        if int(group.max()) >= len(scales) or int(group.min()) < 0:
            raise ValueError(f"{parts['order'].name} names group {int(group.max())}, and there are {len(scales)}")

        def numbers(start: int, end: int) -> Tensor:
            rows = words[start * self.bits // 32 : end * self.bits // 32].mT
            codes, of = whole_numbers(rows.contiguous(), self.bits, end - start).mT, group[start:end]
            return torch.mul(codes.int() - zeros[of], scales[of]).mT

        return filled(whole, dtype, 1, 32, numbers)


@dataclass(frozen=True)
class Gptq:
    bits: int
    group: int
    first: int

    def find(self, files: TensorFiles) -> FoundWeights:
        def scheme(stem: str, parts: Mapping[str, str]) -> GptqMatrix:
            return GptqMatrix(self.bits, self.group, self.first, "order" in parts)

        return FoundWeights(dict(gathered(files, ".weight", ENDINGS, scheme)), set_aside(files))


def read(settings: FormatSettings) -> Gptq:
    """The format of a configuration's settings."""
    bits = settings.whole("bits", 4, *BITS)
    group = settings("group_size", 128)
    if type(group) is not int or (group < 1 and group != -1):
        raise settings.refused("group_size", group, "a whole number above 0, or -1 for one group")
    version = settings.word("checkpoint_format", settings("format", "gptq"), "gptq", "gptq_v2")
    settings("format")
    settings.word("pack_dtype", "int32", "int32")
    settings.flag("desc_act", False)
    _no_exceptions(settings, settings("dynamic"))
    if settings("adapter") is not None:
        raise settings.refused("adapter", settings("adapter"), "codes without an adapter")
    settings.finish(INERT)
    return Gptq(bits, group, 1 if version == "gptq" else 0)


def _no_exceptions(settings: FormatSettings, dynamic: Any) -> None:
    """Refuse modules with settings of their own; those left in full precision (`-:`) are plain in the files."""
    if dynamic and not (isinstance(dynamic, Mapping) and all(str(pattern).startswith("-:") for pattern in dynamic)):
        raise settings.refused("dynamic", dynamic, "modules that are left out, as in -:PATTERN")
