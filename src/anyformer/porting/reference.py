"""A reference that is tiny: a class of transformers, or one that the user names, built from the configuration with random
weights, and its files."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.porting.keys import GROUPS

TRANSFORMERS = "transformers"
SMALL = 512
"""The largest width of a configuration that is taken as it is."""
_SHRUNK: Mapping[str, int] = {
    "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "intermediate_size": 96, "num_experts": 8,
}  # fmt: skip
"""Key -> what its value becomes in a tiny reference, if it is larger."""
_DEEPEST, _VOCAB = 4, 199


@dataclass(frozen=True)
class TinyReference:
    """A model that is not ours, with random weights, and the directory of its files."""

    name: str
    model: nn.Module
    directory: Path
    smaller: Mapping[str, Any]
    """Keys whose values were made smaller, and their new ones."""


def without_marks(tokens: Tensor, table: Mapping[str, Any], symbols: int | None) -> Tensor:
    """Tokens (B, T) with an ordinary one in place of padding and masks, which some classes count or scale by."""
    marks = {table.get(key) for key in ("pad_token_id", "mask_token_id")}
    if tokens.is_floating_point() or symbols is None:
        return tokens
    plain = next(token for token in range(symbols - 1, -1, -1) if token not in marks)
    for mark in (mark for mark in marks if isinstance(mark, int)):
        tokens = tokens.masked_fill(tokens == mark, plain)
    return tokens


def shrunk(table: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that make a configuration tiny; none where it is small already.

    Heads keep their number per key head, and layers the beginning of every list that has one entry per layer.
    """
    found = {name: _value(table, name) for name in ("hidden_size", "num_attention_heads", "num_key_value_heads")}
    width, heads, kv_heads = found.values()
    if width is None or width <= SMALL:
        return {}
    changed: dict[str, Any] = {}
    for name, most in _SHRUNK.items():
        for key in _named(name):
            if isinstance(table.get(key), int) and table[key] > most:
                changed[key] = most
    for key in _named("num_key_value_heads"):
        if key in table and heads and kv_heads:
            changed[key] = max(1, _SHRUNK["num_attention_heads"] * kv_heads // heads)
    depths = {key: table[key] for key in _named("num_hidden_layers") if isinstance(table.get(key), int)}
    for key, depth in depths.items():
        changed[key] = min(depth, _DEEPEST)
        lists = {name: value[:_DEEPEST] for name, value in table.items() if isinstance(value, list) and len(value) == depth}
        changed |= lists
    if isinstance(table.get("vocab_size"), int):
        changed["vocab_size"] = min(table["vocab_size"], _VOCAB)
        ids = {
            name: 0 for name, value in table.items() if name.endswith("token_id") and isinstance(value, int) and value >= _VOCAB
        }
        changed |= ids
    return changed


def _named(name: str) -> tuple[str, ...]:
    return next((group for group in GROUPS if name in group), (name,))


def _value(table: Mapping[str, Any], name: str) -> int | None:
    return next((table[key] for key in _named(name) if isinstance(table.get(key), int)), None)


def reference(directory: Path, table: Mapping[str, Any], against: str, scratch: Path, seed: int = 0) -> TinyReference:
    """The reference, built from the configuration at a tiny size, and saved.

    `against`: `transformers`, or `module:Class`, which is imported and called with the keys as a dict, or, of a class of
    transformers' kind, with its own configuration.
    """
    smaller = shrunk(table)
    tiny = {**table, **smaller}
    torch.manual_seed(seed)
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "config.json").write_text(json.dumps(tiny, indent=2) + "\n", encoding="utf-8")
    model = _of_transformers(directory, tiny, scratch) if against == TRANSFORMERS else of_module(against, tiny)
    model = model.float().eval()
    louder(model, seed)
    _saved(model, tiny, scratch)
    return TinyReference(against, model, scratch, smaller)


def _of_transformers(directory: Path, table: Mapping[str, Any], scratch: Path) -> nn.Module:
    try:
        transformers = importlib.import_module("transformers")
    except ImportError:
        raise UserError("--against transformers needs transformers: pip install 'anyformer[hf]'") from None
    model_type, named = str(table.get("model_type", "")), next(iter(table.get("architectures") or ()), "")
    if model_type not in transformers.CONFIG_MAPPING:
        raise UserError(
            f"{directory}: transformers {transformers.__version__} has no model type {model_type!r}: install one that has it, "
            f"or give the class of the authors as --against module:Class, which is then run"
        )
    kind = _found(transformers, named)
    try:
        config = transformers.AutoConfig.from_pretrained(scratch)
        model: nn.Module = kind._from_config(config, attn_implementation="eager")
    except Exception as error:  # any failure of a class that is not ours
        raise UserError(
            f"{directory}: transformers cannot build {named} from this configuration ({type(error).__name__}: {error})"
        ) from error
    return model


def _found(transformers: Any, named: str) -> Any:
    try:
        return getattr(transformers, named)
    except AttributeError:
        raise UserError(
            f"architectures = [{named!r}] is no class of transformers: name the one to compare with in config.json"
        ) from None


def of_module(against: str, table: Mapping[str, Any]) -> nn.Module:
    """The model that `module:Class` makes of a configuration, with weights as it starts them."""
    module, _, name = against.partition(":")
    if not module or not name:
        raise UserError(f"--against {against}: give transformers, or module:Class, as in modeling_new:NewForCausalLM")
    try:
        kind = getattr(importlib.import_module(module), name)  # a lazy module has no name before it is asked for it
    except ImportError as error:
        raise UserError(f"--against {against}: {module} cannot be imported ({error}); is its folder in PYTHONPATH?") from error
    except AttributeError:
        raise UserError(f"--against {against}: {module} has nothing called {name}") from None
    try:
        own = getattr(kind, "config_class", None)  # classes of transformers inherit it
        # The class's own model type, by which transformers knows in which form files hold its weights.
        keys = {name: value for name, value in table.items() if own is None or name != "model_type"}
        model = kind(keys) if own is None else kind(own(**keys))
    except Exception as error:  # any failure of a class that is not ours
        raise UserError(f"--against {against}: cannot be built ({type(error).__name__}: {error})") from error
    if not isinstance(model, nn.Module):
        raise UserError(f"--against {against}: gives a {type(model).__name__}, and no torch.nn.Module")
    return model


def louder(model: nn.Module, seed: int) -> None:
    """Weights in which every part leaves a trace: gains about 1, all else about 0.2; frozen tables stay."""
    generator = torch.Generator().manual_seed(seed + 1)
    frozen = {
        parameter.data_ptr() for module in model.modules() if "Sinusoid" in type(module).__name__
        for parameter in module.parameters(recurse=False)
    }  # fmt: skip
    done = set[int]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad or parameter.data_ptr() in done | frozen:
                continue
            done.add(parameter.data_ptr())
            noise = torch.randn(parameter.shape, generator=generator)
            gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.2 * noise if gain else 0.2 * noise)
        for name, buffer in model.named_buffers():
            if name.endswith(("correction_bias", "expert_bias", "logits_bias")):
                buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))


def _saved(model: nn.Module, table: Mapping[str, Any], directory: Path) -> None:
    """The files of the reference: as transformers saves them, or the state dict, with a tensor that two names share once."""
    try:
        from transformers import PreTrainedModel

        if isinstance(model, PreTrainedModel):
            model.save_pretrained(directory)
            (directory / "config.json").write_text(json.dumps(dict(table), indent=2) + "\n", encoding="utf-8")
            return
    except ImportError:
        pass
    kept: dict[str, Tensor] = {}
    seen = set[int]()
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen or not tensor.numel():
            seen.add(tensor.data_ptr())
            kept[name] = tensor.detach().clone().contiguous()
    save_file(kept, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(dict(table), indent=2) + "\n", encoding="utf-8")
