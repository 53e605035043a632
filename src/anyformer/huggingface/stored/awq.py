"""AWQ in the packing for `gemm`: 4-bit numbers in groups of inputs, packed along the outputs (arXiv 2306.00978)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.finding import gathered, set_aside
from anyformer.huggingface.stored.numbers import whole_numbers
from anyformer.huggingface.stored.scheme import FoundWeights, Plane, Shape, StoredTensor, filled, groups_of
from anyformer.huggingface.stored.settings import FormatSettings

METHODS = ("awq",)
INERT = (
    "act_group_aware", "batch_size", "block_name_to_quantize", "cache_block_outputs", "damp_percent", "dataset", "desc_act",
    "do_fuse", "exllama_config", "fuse_max_seq_len", "max_input_length", "meta", "model_seqlen",
    "modules_in_block_to_quantize", "module_name_preceding_first_block", "modules_to_fuse", "pad_token_id", "sym", "tokenizer",
    "true_sequential",
)  # fmt: skip
"""Keys of how it was made and of kernels."""
ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Place in a word of the first output of eight, the second, ...: outputs 0, 2, 4, 6, 1, 3, 5, 7 follow one another in it."""
PER_WORD = 8
ENDINGS = {"codes": ".qweight", "zeros": ".qzeros", "scales": ".scales"}


@dataclass(frozen=True)
class AwqMatrix:
    """A matrix (O, I) as words (I, O / 8): x = scale (code - zero), scales (groups, O), zeros in words (groups, O / 8)."""

    group: int

    @property
    def name(self) -> str:
        return f"int4 of AWQ in {'one group' if self.group == -1 else f'groups of {self.group}'}"

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        shape = parts["codes"].shape
        if len(shape) != 2:
            raise ValueError(f"words should have the shape (inputs, outputs / {PER_WORD}), and have {shape}")
        return shape[1] * PER_WORD, shape[0]

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        outputs, inputs = whole
        groups = groups_of(inputs, self.group)
        return {
            "codes": ((inputs, outputs // PER_WORD), torch.int32),
            "zeros": ((groups, outputs // PER_WORD), torch.int32),
            "scales": ((groups, outputs), torch.float16),
        }

    def restored(self, parts: Mapping[str, StoredTensor], whole: Shape, dtype: torch.dtype) -> Tensor:
        inputs = whole[1]
        words, scales = parts["codes"].read(), parts["scales"].read().float()
        zeros = _codes(parts["zeros"].read())
        group = torch.arange(inputs) // (inputs if self.group < 0 else self.group)

        def numbers(start: int, end: int) -> Tensor:
            of = group[start:end]
            return ((_codes(words[start:end]) - zeros[of]) * scales[of]).mT

        return filled(whole, dtype, 1, 1, numbers)


def _codes(words: Tensor) -> Tensor:
    """The codes (R, O) of words (R, O / 8), in the order of the outputs."""
    codes = whole_numbers(words, 4, words.shape[1] * PER_WORD).int()
    return codes.reshape(len(codes), -1, PER_WORD)[..., list(ORDER)].flatten(1)


@dataclass(frozen=True)
class Awq:
    group: int

    def find(self, files: TensorFiles) -> FoundWeights:
        scheme = AwqMatrix(self.group)
        return FoundWeights(dict(gathered(files, ".weight", ENDINGS, lambda *_: scheme)), set_aside(files))


def read(settings: FormatSettings) -> Awq:
    """The format of a configuration's settings, in today's spelling or AutoAWQ's."""
    settings.whole("bits", settings("w_bit", 4), 4)
    group = settings("group_size", settings("q_group_size", 128))
    if type(group) is not int or (group < 1 and group != -1):
        raise settings.refused("group_size", group, "a whole number above 0, or -1 for one group")
    settings.word("version", settings("format", "gemm"), "gemm")
    settings.word("backend", "auto", "auto", "autoawq", "auto_trainable", "gemm", "gemm_triton", "marlin", "machete")
    settings("format")
    if not settings.flag("zero_point", True):
        raise settings.refused("zero_point", False, "codes with zero points")
    settings.finish(INERT)
    return Awq(group)
