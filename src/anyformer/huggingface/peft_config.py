"""The two files of an adapter that PEFT wrote, read and checked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from os.path import isfile
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load_file
from torch import Tensor

from anyformer.huggingface.config import read_table
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.patterns import ends
from anyformer.huggingface.peft_prompts import KIND
from anyformer.huggingface.rules import WeightRule
from anyformer.huggingface.vocabulary import FLAG, MAPPING, NUMBER, WHOLE, ValueKind
from anyformer.precision.finite import check_finite

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
_REFUSED = {
    "layer_replication": "layers that occur several times", "use_qalora": "grouped inputs of A",
    "use_bdlora": "blocks of A and B",
    "alora_invocation_tokens": "an adapter that only some tokens switch on", "arrow_config": "several adapters at once",
    "kasa_config": "singular values that learn", "monteclora_config": "adapters drawn at random",
    "velora_config": "compressed inputs",
}  # fmt: skip
"""Keys of a configuration, true where an adapter computes something else than LoRA or DoRA do, and what that is."""


_NARROWED = ("layers_to_transform", "exclude_modules", "target_parameters")
"""Keys by which fewer modules have an adapter than `target_modules` names."""
_MERGED = {
    "modules_to_save": "whole modules that learn beside it", "target_parameters": "adapters of parameters without a module",
    "trainable_token_indices": "rows of a table that learn", "lora_bias": "biases of B",
}  # fmt: skip
"""Keys of what becomes one with the weights alone, and stands beside none of them here."""
ALPHA = 8
"""PEFT's `lora_alpha` where the file has none."""


_SCALE = ValueKind("a finite number other than 0", lambda value: NUMBER.fits(value) and value != 0)
_ROWS = ValueKind("a list of rows", lambda value: isinstance(value, list) and all(map(WHOLE.fits, value)))


def _of_modules(kind: ValueKind, words: str) -> ValueKind:
    """Tables from modules to a kind of value."""
    return ValueKind(
        f"a table from modules to {words}", lambda value: MAPPING.fits(value) and all(map(kind.fits, value.values()))
    )


_KINDS: Mapping[str, ValueKind] = {
    "lora_alpha": _SCALE,
    "alpha_pattern": _of_modules(_SCALE, "finite numbers other than 0"),
    "trainable_token_indices": _ROWS | _of_modules(_ROWS, "such lists"),
    "use_rslora": FLAG, "use_dora": FLAG, "fan_in_fan_out": FLAG,
}  # fmt: skip
"""Key -> the kind of its value; null is PEFT's default."""


def check_apart(directory: Path, config: Mapping[str, Any]) -> None:
    """Refuse an adapter that cannot stand beside the weights of a model here; `load(path, adapter=...)` merges it."""
    remedy = "which is read where the adapter becomes one with its model alone"
    for key, what in _MERGED.items():
        if config.get(key):
            raise HuggingFaceError(f"{directory / CONFIG}: {key} means {what}, {remedy}")
    if config.get("bias", "none") != "none":
        raise HuggingFaceError(f"{directory / CONFIG}: bias = {config['bias']!r} means biases that learn, {remedy}")


def read_config(directory: Path) -> dict[str, Any]:
    """The configuration of an adapter that is a LoRA, a DoRA or a prompt."""
    if not isfile(directory / CONFIG):
        raise HuggingFaceError(f"{directory}: has no {CONFIG}; give a directory that PEFT's save_pretrained wrote")
    config = read_table(directory / CONFIG)
    kind = config.get("peft_type")
    if kind not in ("LORA", KIND):
        raise HuggingFaceError(
            f"{directory / CONFIG}: peft_type is {kind!r}, and only LORA (with or without DoRA) and {KIND} are read"
        )
    for key, what in _REFUSED.items():
        if config.get(key):
            raise HuggingFaceError(f"{directory / CONFIG}: {key} means {what}, which is not read")
    for key, kind in _KINDS.items():
        if config.get(key) is not None and not kind.fits(config[key]):
            raise HuggingFaceError(f"{directory / CONFIG}: {key} is {config[key]!r}, and must be {kind.words}")
    return config


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """The tensors by name without PEFT's prefix; refuses one that is empty, a single number, or not finite."""
    if not isfile(directory / WEIGHTS):
        pickled = isfile(directory / "adapter_model.bin")
        remedy = "; adapter_model.bin is a pickle: save it again as safetensors" if pickled else ""
        raise HuggingFaceError(f"{directory}: has no {WEIGHTS}{remedy}")
    try:
        tensors = load_file(directory / WEIGHTS)
    except (safetensors.SafetensorError, OSError) as error:
        raise HuggingFaceError(f"{directory / WEIGHTS}: cannot be read as safetensors ({error})") from None
    for name, tensor in tensors.items():
        if not tensor.dim() or not tensor.numel():
            raise HuggingFaceError(f"{directory / WEIGHTS}: {name} has the shape {tuple(tensor.shape)}, and no adapter has")
        check_finite(tensor, f"{directory / WEIGHTS}: {name}", HuggingFaceError)
    return {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}


def scale_of(directory: Path, config: Mapping[str, Any], module: str, rank: int) -> float:
    """alpha / r of a module, or alpha / sqrt(r)."""
    patterns, where = config.get("alpha_pattern") or {}, f"{directory / CONFIG}: alpha_pattern"
    usual = ALPHA if config.get("lora_alpha") is None else config["lora_alpha"]
    alpha = next((alpha for pattern, alpha in patterns.items() if ends(pattern, module, where)), usual)
    return float(alpha) / (rank**0.5 if config.get("use_rslora") else rank)


def check_targets(
    directory: Path,
    config: Mapping[str, Any],
    of_weights: Iterable[WeightRule],
    shapes: Mapping[str, tuple[int, ...]],
    reached: Container[str],
) -> None:
    """Refuse an adapter without tensors for a matrix that its configuration names; `reached`: names of those that have some."""
    targets = config.get("target_modules")
    if not isinstance(targets, list) or any(config.get(key) for key in _NARROWED):
        return
    endings = tuple(f".{target}.weight" for target in targets)
    # Experts are one parameter for PEFT, which `target_parameters` names.
    matrices = (name for rule in of_weights if len(shapes[rule.parameters[0]]) == 2 for name in rule.stored)
    missing = [name for name in matrices if f".{name}".endswith(endings) and ".experts." not in name and name not in reached]
    if missing:
        module = missing[0].removesuffix(".weight")
        raise HuggingFaceError(
            f"{directory}: {CONFIG} names {module} in target_modules, and {WEIGHTS} holds no adapter of it ({len(missing)} "
            "such): the file is not whole, or of another model"
        )
