"""Names of tensors: Hugging Face's to llama.cpp's by gguf's `TensorNameMap`, and what joins or divides tensors on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.lines import Words
from anyformer.huggingface.gguf.reader import library
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.rules import SAME, Op
from anyformer.model import Architecture

_NUMBER = re.compile(r"\.(\d+)\.")
_EXPERT = re.compile(r"\.(experts|norms)\.\d+\.")
LEAVES = (".weight", ".bias")


@dataclass(frozen=True)
class GgufRule:
    """Tensors of a file, those of Hugging Face's layout that they stand for, and what changes them, both ways.

    `stacked`: the one tensor of the file has one entry of its first dimension for every one of theirs, each changed by itself.
    """

    stored: tuple[str, ...]
    theirs: tuple[str, ...]
    op: Op = SAME
    stacked: bool = False


def depth_of(architecture: Architecture) -> int:
    """Layers of the deepest stack."""
    return max(stack.depth for stack in architecture.stacks.values())


def table_of(form: GgufForm, layers: int) -> Any:
    """The package's table of names for an architecture."""
    gguf = library()
    number = next((number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == form.architecture), None)
    if number is None:
        raise HuggingFaceError(
            f"{form.model_type}: the installed package gguf has no architecture {form.architecture!r}: pip install -U gguf"
        )
    return gguf.get_tensor_name_map(number, layers)


def gguf_rules(form: GgufForm, table: Words, layers: int, names: Iterable[str]) -> list[GgufRule]:
    """A rule for every tensor of Hugging Face's layout that has a name in llama.cpp; several may share one."""
    known = table_of(form, layers)
    grouped: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        if stored := _named(form, known, name):
            grouped.setdefault(stored, []).append(name)
    return [_rule(form, table, stored, theirs) for stored, theirs in grouped.items()]


def check_named(form: GgufForm, made: Iterable[GgufRule], names: Iterable[str]) -> None:
    """Refuse a tensor that has no name in llama.cpp."""
    named = {name for rule in made for name in rule.theirs}
    lost = [name for name in names if name not in named]
    if lost:
        raise HuggingFaceError(
            f"{form.model_type}: {', '.join(lost[:3])} {'has' if len(lost) == 1 else 'have'} no name in llama.cpp's "
            f"{form.architecture}, and would be lost"
        )


def _named(form: GgufForm, known: Any, name: str) -> tuple[str, ...]:
    """The names in a file of one of their tensors, which several may share; none where llama.cpp has none."""
    pattern = _EXPERT.sub(r".\1.{x}.", name)
    found = _NUMBER.search(pattern)
    block = f"blk.{found[1]}." if found else ""
    leaf = next((leaf for leaf in LEAVES if pattern.endswith(leaf)), "")
    for end, to in form.names.items():
        for whole, more in ((pattern, ""), (pattern.removesuffix(leaf), leaf)):
            if f".{whole}".endswith(f".{end}"):
                return tuple(f"{block}{each}{more}" for each in ((to,) if isinstance(to, str) else to))
    plain = pattern.replace(".{x}", "")
    own = next((own for each in (plain, plain.removeprefix("transformer.")) if (own := known.get_name(each, LEAVES))), None)
    return () if own is None else (own,)


def inside_of(name: str) -> str:
    """A name in a file without its layer."""
    _, _, inside = name.partition("blk.")
    return inside.partition(".")[2] if inside else name


def stem_of(name: str) -> str:
    """A name in a file without its layer and its ending."""
    short = inside_of(name)
    return next((short.removesuffix(leaf) for leaf in LEAVES if short.endswith(leaf)), short)


def _rule(form: GgufForm, table: Words, stored: tuple[str, ...], theirs: list[str]) -> GgufRule:
    change = form.changes.get(inside_of(stored[0]), form.changes.get(stem_of(stored[0])))
    op = SAME if change is None else change(table)
    stacked = len(stored) == 1 and bool(_EXPERT.search(theirs[0]))
    if len(theirs) > 1 and not stacked and change is None:
        raise HuggingFaceError(f"{form.model_type}: {' and '.join(theirs[:3])} have one name in llama.cpp, {stored[0]}")
    return GgufRule(stored, tuple(theirs), op, stacked)


def placed(rules: Iterable[GgufRule], there: Mapping[str, Any]) -> dict[str, tuple[GgufRule, int]]:
    """Name of theirs -> its rule and its number in it, of rules whose tensors are all in a file."""
    return {
        name: (rule, number)
        for rule in rules
        if all(stored in there for stored in rule.stored)
        for number, name in enumerate(rule.theirs)
    }
