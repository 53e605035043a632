"""compressed-tensors: what llm-compressor writes, in groups of modules that each have a scheme and a packing.

The packings are those of github.com/vllm-project/compressed-tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.patterns import begins, check_pattern
from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.finding import gathered, set_aside
from anyformer.huggingface.stored.scaled import Codes, Eight, Fp4, IntegerWords, Scaled
from anyformer.huggingface.stored.scheme import FoundWeights, PackedWeight
from anyformer.huggingface.stored.settings import REMEDY, FormatSettings

METHODS = ("compressed-tensors",)
INERT = ("format", "global_compression_ratio", "ignore", "kv_cache_scheme", "version")
GROUP_INERT = ("format", "input_activations", "output_activations", "targets", "weights")
WEIGHTS_INERT = ("actorder", "dynamic", "observer", "observer_kwargs", "scale_dtype", "symmetric", "zp_dtype")
EIGHT_BITS = (torch.int8, torch.float8_e4m3fn)
_BESIDE = {"scales": ".weight_scale"}
_OPTIONAL = {"zeros": "?.weight_zero_point", "order": "?.weight_g_idx"}
_PLAIN = {**_BESIDE, "codes": ".weight", **_OPTIONAL}
ENDINGS: Mapping[str, Mapping[str, str]] = {
    "pack-quantized": {"codes": ".weight_packed", **_BESIDE, "shape": ".weight_shape", **_OPTIONAL},
    "int-quantized": _PLAIN,
    "float-quantized": _PLAIN,
    "naive-quantized": _PLAIN,
    "nvfp4-pack-quantized": {"codes": ".weight_packed", **_BESIDE, "outer": ".weight_global_scale"},
    "mxfp4-pack-quantized": {"codes": ".weight_packed", **_BESIDE},
    "mxfp8-quantized": {**_BESIDE, "codes": ".weight"},
}
"""Packing -> the tensors of a weight."""
STRATEGIES = ("tensor", "channel", "group", "block", "tensor_group")


@dataclass(frozen=True)
class ModuleGroup:
    """Modules of one scheme: `targets` of a configuration (`where`) are names, patterns after `re:`, or classes, which no
    name is of."""

    where: str
    targets: tuple[str, ...]
    packing: str
    kind: str
    bits: int
    block: tuple[int | None, int | None]

    def rank(self, module: str) -> int | None:
        """How nearly a target names the module: 0 by name, 1 by a pattern, 2 by its class; None: not at all."""
        return min((rank for target in self.targets if (rank := self._rank(target, module)) is not None), default=None)

    def _rank(self, target: str, module: str) -> int | None:
        if target == module:
            return 0
        if target.startswith("re:"):
            return 1 if begins(target.removeprefix("re:"), module, self.where) else None
        return 2 if target[:1].isupper() else None

    def scheme(self, files: TensorFiles, parts: Mapping[str, str]) -> Scaled:
        """The scheme of a weight that these tensors hold."""
        dtypes = {part: files.dtype(name) for part, name in parts.items()}
        return Scaled(
            f"{'fp' if self.kind == 'float' else 'int'}{self.bits} {self._shares} ({self.packing})",
            self._codes(dtypes["codes"]),
            self.block,
            dtypes["scales"],
            dtypes.get("zeros"),
            "over" if "outer" in parts else None,
        )

    def _codes(self, dtype: torch.dtype) -> Codes:
        if self.packing == "pack-quantized":
            return IntegerWords(self.bits)
        return Fp4() if dtype == torch.uint8 else Eight(dtype)

    @property
    def _shares(self) -> str:
        rows, inputs = self.block
        if rows is None:
            return "by matrices"
        return "by rows" if inputs is None else f"in groups of {inputs}" if rows == 1 else f"in blocks of {rows} x {inputs}"


@dataclass(frozen=True)
class CompressedTensors:
    groups: tuple[ModuleGroup, ...]

    def find(self, files: TensorFiles) -> FoundWeights:
        packed: dict[str, PackedWeight] = {}
        for group in self.groups:

            def belongs(name: str, group: ModuleGroup = group) -> bool:
                module = name.removesuffix(next(iter(ENDINGS[group.packing].values())))
                return self._group_of(module, files, name) is group

            def scheme(stem: str, parts: Mapping[str, str], group: ModuleGroup = group) -> Scaled:
                return group.scheme(files, parts)

            packed |= dict(gathered(files, ".weight", ENDINGS[group.packing], scheme, belongs))
        return FoundWeights(packed, set_aside(files))

    def _group_of(self, module: str, files: TensorFiles, name: str) -> ModuleGroup:
        """The group that names a module most nearly."""
        ranked = [(rank, i) for i, group in enumerate(self.groups) if (rank := group.rank(module)) is not None]
        if not ranked:
            raise HuggingFaceError(f"{files.path(name)}: {name}: no group of quantization_config has {module} as a target")
        return self.groups[min(ranked)[1]]


def read(settings: FormatSettings) -> CompressedTensors:
    """The format of a configuration's settings."""
    packing = settings("format", "dense")
    settings.word("quantization_status", "compressed", "compressed")
    for name in ("sparsity_config", "transform_config", "moe_sparsity_config"):
        table = settings(name)
        if table and (not isinstance(table, Mapping) or table.get("format") != "dense"):
            raise settings.refused(name, table, "weights that are not sparse or rotated")
    groups = settings("config_groups")
    if not isinstance(groups, Mapping) or not groups or not all(isinstance(group, Mapping) for group in groups.values()):
        raise settings.refused("config_groups", groups, "a table of groups of modules")
    settings.finish(INERT)
    return CompressedTensors(tuple(_group(settings, f"config_groups.{name}", group, packing) for name, group in groups.items()))


def _group(settings: FormatSettings, name: str, table: Mapping[str, Any], packing: Any) -> ModuleGroup:
    group = FormatSettings(table, settings.where, f"{settings.format}, {name}")
    own = group.word("format", packing if isinstance(packing, str) else "dense", *ENDINGS)
    targets = group("targets")
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise group.refused("targets", targets, "a list of names")
    for pattern in (target[3:] for target in targets if target.startswith("re:")):
        try:
            check_pattern(pattern, f"{settings.where}: {name}.targets")
        except HuggingFaceError as error:
            raise HuggingFaceError(f"{error}; {REMEDY}") from None
    weights = group("weights")
    if not isinstance(weights, Mapping):
        raise group.refused("weights", weights, "a table of how weights are stored")
    group.finish(GROUP_INERT)
    return _of_weights(FormatSettings(weights, settings.where, f"{settings.format}, {name}.weights"), tuple(targets), own)


def _of_weights(weights: FormatSettings, targets: tuple[str, ...], packing: str) -> ModuleGroup:
    kind = weights.word("type", "int", "int", "float")
    bits = weights.whole("num_bits", 8, *range(1, 9))
    size = weights("group_size")
    usual = "channel" if size == -1 else "tensor" if size is None else "group"
    strategy = weights.word("strategy", usual, *STRATEGIES)
    structure = weights("block_structure")
    if strategy == "block":
        if isinstance(structure, str):  # an older spelling: 128x128
            structure = [int(n) if n.isdecimal() else 0 for n in structure.split("x")]
        if not isinstance(structure, list) or len(structure) != 2 or not all(type(n) is int and n > 0 for n in structure):
            raise weights.refused("block_structure", structure, "two whole numbers above 0")
    if "group" in strategy and (type(size) is not int or size < 1):
        raise weights.refused("group_size", size, "a whole number above 0")
    weights.finish(WEIGHTS_INERT)
    block: Mapping[str, tuple[int | None, int | None]] = {"tensor": (None, None), "channel": (1, None)}
    shares = block.get(strategy) or (tuple(structure) if strategy == "block" else (1, size))
    return ModuleGroup(weights.where, targets, packing, kind, bits, shares)
