"""The class of a type's authors as the reference of a written family, with which its test compares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.porting.proof import logits_of
from anyformer.porting.reference import of_module


def logits_by(against: str) -> Callable[[Mapping[str, Any], Mapping[str, Tensor], Tensor], Tensor]:
    """`module:Class` as a reference for `Checks`: (configuration, stored tensors by name, tokens (B, T)) -> logits (B, T, V).

    The module is imported, and the class built, when it is called; `UserError` where that fails, or where a weight of the
    class has no stored tensor.
    """

    def reference(table: Mapping[str, Any], stored: Mapping[str, Tensor], given: Tensor) -> Tensor:
        model = _filled(of_module(against, table), stored, against).float().eval()
        with torch.no_grad():
            return logits_of(model, given, None)

    return reference


def _filled(model: nn.Module, stored: Mapping[str, Tensor], against: str) -> nn.Module:
    """The model with the stored weights, every one of them; a class of transformers loads them by its own rules."""
    lacking, idle = _loaded_by_transformers(model, stored) or _loaded(model, stored)
    if lacking or idle:
        raise UserError(
            f"{against}: its weights are not those of the written files: they lack {', '.join(sorted(lacking)) or 'none'}, "
            f"and it has no place for {', '.join(sorted(idle)) or 'none'} of theirs"
        )
    return model


def _loaded(model: nn.Module, stored: Mapping[str, Tensor]) -> tuple[set[str], set[str]]:
    """Names of weights that no stored tensor fills, not under another name either, and of stored tensors without a place."""
    found = model.load_state_dict(dict(stored), strict=False)
    named = dict(model.named_parameters(remove_duplicate=False))
    filled = {named[name].data_ptr() for name in stored if name in named}
    lacking = {name for name in found.missing_keys if name in named and named[name].data_ptr() not in filled}
    return lacking, set(found.unexpected_keys)


def _loaded_by_transformers(model: nn.Module, stored: Mapping[str, Tensor]) -> tuple[set[str], set[str]] | None:
    """The same of a model of transformers, whose files may hold weights in another form; None of any other model."""
    try:
        from transformers import PreTrainedModel
    except ImportError:
        return None
    if not isinstance(model, PreTrainedModel):
        return None
    made, told = type(model).from_pretrained(
        None, config=model.config, state_dict=dict(stored), dtype=torch.float32, output_loading_info=True
    )
    model.load_state_dict(made.state_dict())
    return set(told["missing_keys"]), set(told["unexpected_keys"])
