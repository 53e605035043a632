"""Names and shapes of a directory's weights, from headers and indices alone, and the modules that they are of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from anyformer.describe import UserError
from anyformer.huggingface.config import read_table
from anyformer.huggingface.files import today
from anyformer.huggingface.stored.files import INDEX, TensorFiles

Shape = tuple[int, ...] | None
"""The shape of a tensor; None where only its name is known."""
LEAVES = ("weight", "bias")
_EXPERT = re.compile(r"expert")


@dataclass(frozen=True)
class FileModule:
    """The tensors of one module in all layers: `model.layers.{i}.self_attn.q_proj`.

    `{i}` stands for the number of the layer, `{x}` for that of an expert. `leaves`: "weight", "bias", or "" of a tensor whose
    name ends with neither -> number of the layer (-1 outside of layers) -> the shapes, one per expert.
    """

    name: str
    leaves: Mapping[str, Mapping[int, tuple[Shape, ...]]]

    def signature(self, leaf: str) -> dict[int, tuple[Shape, ...]]:
        """What must be equal in two modules that may be one: layers and shapes."""
        return dict(self.leaves.get(leaf, {}))

    @property
    def main(self) -> str:
        """The leaf by which the module is known: its weight, else what it has."""
        return next(leaf for leaf in ("weight", "", "bias") if leaf in self.leaves)

    @property
    def tensor(self) -> str:
        """The name of its main tensor."""
        return f"{self.name}.{self.main}".rstrip(".")

    @property
    def layers(self) -> frozenset[int]:
        return frozenset(self.leaves[self.main])

    @property
    def shape(self) -> Shape:
        """The shape of its weight in its first layer."""
        return self.leaves[self.main][min(self.layers)][0]


def shapes_in(directory: Path) -> dict[str, Shape]:
    """Name -> shape of every tensor in a directory's safetensors; shapes are None where there is an index and no file."""
    index = directory / INDEX
    files = sorted(directory.glob("*.safetensors"))
    if index.is_file():
        table = read_table(index).get("weight_map")
        if not isinstance(table, dict) or not all(isinstance(each, str) for each in table):
            raise UserError(f"{index}: weight_map should be a table of names and files, got {json.dumps(table)[:60]}")
        if not any((directory / str(file)).is_file() for file in set(table.values())):
            return dict.fromkeys(map(today, table))
    if not files:
        raise UserError(
            f"{directory}: has no names of weights: put its .safetensors files there, whose headers are read, or {INDEX}"
        )
    source = TensorFiles(directory)
    return {today(name): source.shape(name) for name in source.names}


def modules_of(shapes: Mapping[str, Shape]) -> dict[str, FileModule]:
    """Pattern of a module -> the module, of all tensors."""
    found: dict[str, dict[str, dict[int, dict[int, Shape]]]] = {}
    for name, shape in shapes.items():
        module, leaf = split(name)
        pattern, layer, expert = pattern_of(module)
        found.setdefault(pattern, {}).setdefault(leaf, {}).setdefault(layer, {})[expert] = shape
    return {
        pattern: FileModule(
            pattern,
            {
                leaf: {layer: tuple(each[x] for x in sorted(each)) for layer, each in layers.items()}
                for leaf, layers in leaves.items()
            },
        )
        for pattern, leaves in found.items()
    }


def split(name: str) -> tuple[str, str]:
    """The module and the leaf of a tensor's name."""
    module, _, leaf = name.rpartition(".")
    return (module, leaf) if leaf in LEAVES and module else (name, "")


def pattern_of(module: str) -> tuple[str, int, int]:
    """A module's name with `{i}` and `{x}` for the numbers of its layer and of its expert, and the two; -1 for none.

    The first number is that of a layer, unless experts stand before it; one behind a word with `expert` is an expert's.
    """
    layer = expert = -1
    words = module.split(".")
    for at, word in enumerate(words):
        if not word.isdigit():
            continue
        if at and _EXPERT.search(words[at - 1]):
            expert, words[at] = int(word), "{x}"
        elif layer < 0 and expert < 0:
            layer, words[at] = int(word), "{i}"
    return ".".join(words), layer, expert


def idle(module: FileModule, patterns: Iterable[str]) -> bool:
    """Whether every tensor of a module has a name that one of the patterns means: of buffers, and of what nothing reads."""
    name = module.name.replace("{i}", "0").replace("{x}", "0")
    found = [re.compile(pattern) for pattern in patterns]
    names = [f"{name}.{leaf}".rstrip(".") for leaf in module.leaves]
    return all(any(pattern.fullmatch(each) for pattern in found) for each in names)


def count(modules: Iterable[FileModule]) -> int:
    """The number of tensors in modules."""
    return sum(len(shapes) for each in modules for layers in each.leaves.values() for shapes in layers.values())
