"""bitsandbytes: nf4 and fp4 in blocks of the flattened matrix (QLoRA, arXiv 2305.14314), int8 by rows (arXiv 2208.07339)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from anyformer.describe import json_data
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.finding import gathered, set_aside
from anyformer.huggingface.stored.scaled import Eight, Scaled
from anyformer.huggingface.stored.scheme import FoundWeights, PackedWeight, Plane, Shape, StoredTensor, filled
from anyformer.huggingface.stored.settings import FormatSettings

METHODS = ("bitsandbytes",)
INERT = (
    "load_in_4bit", "load_in_8bit",
    "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant",
    "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "llm_int8_skip_modules", "llm_int8_threshold",
)  # fmt: skip
"""How it computes; the type, the blocks and the double quantisation are in the files, beside each weight."""
KINDS = ("nf4", "fp4")
STATE = ".weight.quant_state.bitsandbytes__"
FOUR = {
    "codes": ".weight",
    "largest": ".weight.absmax",
    "numbers": ".weight.quant_map",
    "outer": "?.weight.nested_absmax",
    "outer_numbers": "?.weight.nested_quant_map",
}
ROWS = Scaled("int8 by rows of bitsandbytes", Eight(torch.int8), (1, None), factor=1 / 127)
ROW_MAJOR = 0
"""The layout of int8 codes, stored as `weight_format`: that of a plain matrix."""


@dataclass(frozen=True)
class QuantState:
    """What the files say of one weight in 4 bits: a table in JSON, stored as a tensor of bytes."""

    kind: str
    shape: Shape
    block: int
    outer_block: int | None
    """Blocks that share a scale of their scales; None: the scales are plain numbers."""
    offset: float
    """What is taken off scales before they are stored in 8 bits."""


@dataclass(frozen=True)
class FourBits:
    """x = numbers[code] largest[block], two codes in a byte, the first in the high bits; with double quantisation
    largest = outer_numbers[code of the block] outer[block of blocks] + offset.
    """

    state: QuantState
    storage: torch.dtype

    @property
    def name(self) -> str:
        return f"{self.state.kind} of bitsandbytes in blocks of {self.state.block}"

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        return self.state.shape

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        count = prod(whole)
        blocks = -(-count // self.state.block)
        bytes = -(-count // 2)
        planes = {
            "codes": ((-(-bytes // self.storage.itemsize),), self.storage),
            "largest": ((blocks,), torch.float32 if self.state.outer_block is None else torch.uint8),
            "numbers": ((16,), torch.float32),
        }
        if self.state.outer_block is not None:
            planes["outer"] = ((-(-blocks // self.state.outer_block),), torch.float32)
            planes["outer_numbers"] = ((256,), torch.float32)
        return planes

    def restored(self, parts: Mapping[str, StoredTensor], whole: Shape, dtype: torch.dtype) -> Tensor:
        codes = parts["codes"].read().contiguous().view(torch.uint8).flatten()
        numbers, largest, block = parts["numbers"].read().float(), self._largest(parts), self.state.block

        def piece(start: int, end: int) -> Tensor:
            bytes = codes[start // 2 : -(-end // 2)]
            x = numbers[torch.stack([bytes >> 4, bytes & 15], -1).flatten()[: end - start].int()]
            return x * largest[torch.arange(start, end) // block]

        return filled((prod(whole),), dtype, 0, 2, piece).reshape(whole)

    def _largest(self, parts: Mapping[str, StoredTensor]) -> Tensor:
        """The scale of each block, fp32."""
        stored = parts["largest"].read().flatten()
        if self.state.outer_block is None:
            return stored.float()
        outer = parts["outer"].read().float().flatten()[torch.arange(len(stored)) // self.state.outer_block]
        return parts["outer_numbers"].read().float().flatten()[stored.int()] * outer + self.state.offset


@dataclass(frozen=True)
class BitsAndBytes:
    def find(self, files: TensorFiles) -> FoundWeights:
        packed: dict[str, PackedWeight] = {}
        states: list[str] = []
        for kind in KINDS:
            named = {name.removesuffix(STATE + kind): name for name in files.names if name.endswith(STATE + kind)}
            read = {stem: _state(files, name, kind) for stem, name in named.items()}
            states += named.values()

            def scheme(stem: str, parts: Mapping[str, str], read: Mapping[str, QuantState] = read) -> FourBits:
                return FourBits(read[stem], files.dtype(parts["codes"]))

            first = {name + ".weight" for name in read}
            packed |= dict(gathered(files, ".weight", FOUR, scheme, first.__contains__))
        layouts = [name for name in files.names if name.endswith(".weight_format")]
        for name in layouts:
            if int(files.raw(name).max()) != ROW_MAJOR:
                raise HuggingFaceError(
                    f"{files.path(name)}: {name}: int8 codes in the layout of a GPU; save them again on a CPU"
                )
        rows = {"scales": ".SCB", "codes": ".weight"}
        packed |= dict(gathered(files, ".weight", rows, lambda *_: ROWS))
        return FoundWeights(packed, set_aside(files), (*states, *layouts))


_LARGEST_STATE = 1_000_000
"""Bytes of a table beside a weight: the real ones have some hundred."""


def _state(files: TensorFiles, name: str, kind: str) -> QuantState:
    """The table that a tensor of bytes holds."""
    try:
        if files.bytes_of(name) > _LARGEST_STATE:
            raise ValueError(f"{files.bytes_of(name):,} bytes")
        table = json_data(bytes(files.raw(name).tolist()))
        nested = table.get("nested_blocksize")
        shape = tuple(int(size) for size in table["shape"])
        outer = None if nested is None else int(nested)
        found = QuantState(kind, shape, int(table["blocksize"]), outer, float(table.get("nested_offset") or 0.0))
        if min(found.block, *shape, 1 if outer is None else outer) < 1:
            raise ValueError(f"blocks of {found.block} in a matrix of {shape}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HuggingFaceError(f"{files.path(name)}: {name}: is no state of a weight in 4 bits ({error})") from None
    return found


def read(settings: FormatSettings) -> BitsAndBytes:
    """The format of a configuration's settings."""
    settings.finish(INERT)
    return BitsAndBytes()
