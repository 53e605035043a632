"""Weights by the endings of the tensors that hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.stored.files import TensorFiles
from anyformer.huggingface.stored.scheme import PackedWeight, Scheme

ASIDE = re.compile(r".*\.(activation_scale|(input|output|q|k|v|kv|prob)_(scale|zero_point|global_scale|scale_ub|g_idx))")
"""Scales of activations and of the cache: a computation in 16 bits needs none of them."""
OPTIONAL = "?"


def gathered(
    files: TensorFiles,
    weight: str,
    endings: Mapping[str, str],
    scheme: Callable[[str, Mapping[str, str]], Scheme],
    where: Callable[[str], bool] = lambda name: True,
) -> Iterator[tuple[str, PackedWeight]]:
    """(name of a weight, the tensors that hold it), for every tensor with the first of the endings.

    `weight`: the ending of the weight's own name. `endings`: what a tensor is to the weight -> the end of its name, after
    `?` where it may be missing. `scheme`: of a weight's name without that ending, and its tensors; `where`: whether a
    tensor with the first ending is one.
    """
    first = next(iter(endings.values()))
    for name in files.names:
        if not name.endswith(first) or not where(name):
            continue
        stem = name.removesuffix(first)
        named = {part: (stem + ending.removeprefix(OPTIONAL), ending.startswith(OPTIONAL)) for part, ending in endings.items()}
        missing = [each for each, optional in named.values() if each not in files.names and not optional]
        if missing:
            raise HuggingFaceError(
                f"{files.path(name)}: {name} cannot be read without {' and '.join(missing)}, which no file of "
                f"{files.directory} holds; download the directory anew"
            )
        parts = {part: each for part, (each, _) in named.items() if each in files.names}
        yield stem + weight, PackedWeight(scheme(stem, parts), parts)


def set_aside(files: TensorFiles) -> tuple[str, ...]:
    """Names of scales that only a computation in few bits needs, in order."""
    return tuple(sorted(name for name in files.names if ASIDE.fullmatch(name)))
