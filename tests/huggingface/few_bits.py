"""Tiny random models written as they are published in few bits, beside the same as a reference restores them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from anyformer import huggingface
from anyformer.describe import Notice
from anyformer.model.transformer import Transformer
from huggingface.case import Case
from huggingface.parity import gap, given, pair

LLAMA = Case(
    "llama",
    {
        "vocab_size": 53, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64,
    },
)  # fmt: skip
NEAR = 2e-5
"""Largest difference of logits, of the largest, as for models in full precision."""
Packed = tuple[Mapping[str, Tensor], Tensor]
"""The stored tensors by full name, and the weight that a reference restores from them, fp32."""


@dataclass(frozen=True)
class Written:
    """`packed`: a directory as published; `whole`: the same with plain weights, for transformers."""

    packed: Path
    whole: Path


def in_layers(name: str, tensor: Tensor) -> bool:
    """Whether a tensor is a matrix of a layer that formats convert: not a router's."""
    return ".layers." in name and name.endswith("proj.weight") and tensor.dim() == 2


def write(
    place: Path,
    case: Case,
    settings: Mapping[str, Any],
    pack: Callable[[str, Tensor], Packed],
    which: Callable[[str, Tensor], bool] = in_layers,
    more: Mapping[str, Tensor] | None = None,
) -> Written:
    """Write a model with the tensors of `which` packed by `pack`; `more`: tensors that are only beside the packed ones."""
    directory = pair(case).directory
    config = json.loads((directory / "config.json").read_text())
    tensors = load_file(directory / "model.safetensors")
    packed, whole = dict(more or {}), {}
    for name, tensor in tensors.items():
        if which(name, tensor):
            stored, whole[name] = pack(name, tensor)
            packed |= {key: value.contiguous() for key, value in stored.items()}
        else:
            packed[name] = whole[name] = tensor
    whole = {name: tensor.float().contiguous() for name, tensor in whole.items()}
    made = Written(place / "packed", place / "whole")
    for path, held, keys in ((made.packed, packed, {"quantization_config": dict(settings)}), (made.whole, whole, {})):
        path.mkdir()
        save_file(held, path / "model.safetensors", metadata={"format": "pt"})
        (path / "config.json").write_text(json.dumps({**config, "dtype": "float32", **keys}))
    return made


def check(made: Written, case: Case) -> Transformer:
    """Assert that the packed directory is read as the reference restores it: every value, and the logits of transformers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        ours, _ = huggingface.load(made.packed)
    whole = dict(huggingface.load(made.whole)[0].named_parameters())
    found = dict(ours.named_parameters())
    assert found.keys() == whole.keys()
    for name, value in found.items():
        assert torch.equal(value, whole[name]), f"{name}: {(value - whole[name]).abs().max()}"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(made.whole, dtype=torch.float32).eval()
    assert logit_gap(ours, theirs, case) <= NEAR
    return ours


def logit_gap(ours: Transformer, theirs: torch.nn.Module, case: Case) -> float:
    with torch.no_grad():
        return gap(ours(given(case)), theirs(given(case)).logits)


def change_tensors(directory: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the tensors of a directory in place."""
    path = directory / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata={"format": "pt"})


def blocks(matrix: Tensor, rows: int, columns: int, largest: float) -> Tensor:
    """Scales max |x| / largest of each block, those at the edges cut: (ceil(O / rows), ceil(I / columns))."""
    outputs, inputs = matrix.shape
    return torch.stack(
        [
            torch.stack([matrix[i : i + rows, j : j + columns].abs().max() / largest for j in range(0, inputs, columns)])
            for i in range(0, outputs, rows)
        ]
    )


def spread(scales: Tensor, rows: int, columns: int, shape: tuple[int, ...]) -> Tensor:
    """Scales beside every number of their blocks."""
    return scales.repeat_interleave(rows, 0)[: shape[0]].repeat_interleave(columns, 1)[:, : shape[1]]
