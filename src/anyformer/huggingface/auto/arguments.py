"""Arguments of transformers' forward pass, read into those of `Transformer.features`, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from anyformer.describe import InputError, did_you_mean
from anyformer.huggingface.auto.cache import AnyformerCache
from anyformer.model.transformer import Transformer
from anyformer.parts.call.state import EMPTY

_PACKED = "give position_ids that start again at every document, and no attention_mask"
NOT_HONOURED: Mapping[str, str] = {
    "output_attentions": "attention weights are never written out by the kernels; take them from a hook of your own",
    "output_router_logits": "the routers' losses belong to an objective of anyformer; add them in a loss of your own",
    "cu_seq_lens_q": _PACKED,
    "cu_seq_lens_k": _PACKED,
    "max_length_q": _PACKED,
    "max_length_k": _PACKED,
    "seq_idx": _PACKED,
    "head_mask": "heads cannot be switched off in a call",
    "is_causal": "which positions are seen is the architecture's mask; change decoder.*.attention.mask",
    "cache_position": "the cache counts its own positions; leave it out",
}
"""Argument of transformers that no model here takes -> why, or what to use instead. None and False are accepted."""


def check_held(model: Transformer, given: Tensor) -> None:
    """Refuse a model whose shared table `device_map` has put aside: what reads it twice would find no numbers there."""
    if (
        model.architecture.head is not None
        and model.architecture.head.tied
        and model.device.type == "meta" != given.device.type
    ):
        raise InputError(
            "the head shares the embedding's table, and device_map has put the model aside, to memory or disk, where the head "
            "cannot reach it: give one device room for the whole model, or leave device_map out"
        )


def refuse_others(name: str, known: tuple[str, ...], more: Mapping[str, Any]) -> None:
    """Refuse the arguments `more`, unless None or False; `name` of the class, `known` arguments of its forward pass."""
    for argument, value in more.items():
        if argument not in NOT_HONOURED:
            hint = did_you_mean(argument, (*known, *NOT_HONOURED))
            raise InputError(f"{name} takes no argument {argument!r}{hint}")
        if value is not None and value is not False:
            raise InputError(f"{name} cannot honour {argument}: {NOT_HONOURED[argument]}")


def one_of(tokens: Tensor | None, embeds: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Tokens (B, T), zeros where `embeds` (B, T, D) are given instead, and the embeds."""
    if (tokens is None) == (embeds is None):
        raise InputError("give either input_ids or inputs_embeds")
    if embeds is None:
        assert tokens is not None
        if tokens.dim() != 2:
            raise InputError(f"input_ids should have shape (B, T), got {tuple(tokens.shape)}")
        return tokens, None
    if embeds.dim() != 3:
        raise InputError(f"inputs_embeds should have shape (B, T, D), got {tuple(embeds.shape)}")
    return torch.zeros(embeds.shape[:2], dtype=torch.int64, device=embeds.device), embeds


def padding_of(attention_mask: Tensor | None, batch: int, length: int, cache: AnyformerCache | None) -> Tensor | None:
    """Padding (B, T), true on padding, or None without any. With a cache the mask covers its positions, too."""
    past = 0 if cache is None else cache.get_seq_length()
    if attention_mask is None:
        return None
    if not torch.is_tensor(attention_mask) or attention_mask.dim() != 2:
        shape = tuple(attention_mask.shape) if torch.is_tensor(attention_mask) else type(attention_mask).__name__
        raise InputError(
            f"attention_mask should have shape (B, T), 1 on tokens and 0 on padding, got {shape}; which token sees which "
            f"other is the architecture's mask"
        )
    if attention_mask.shape != (batch, past + length):
        raise InputError(
            f"attention_mask should have shape {(batch, past + length)}, the {past} positions in the cache and the {length} "
            f"of this call, got {tuple(attention_mask.shape)}"
        )
    padding = attention_mask == 0
    if torch.compiler.is_compiling():
        return padding[:, past:]
    if cache is not None and past:
        cache.check_past(padding[:, :past])
    return padding[:, past:] if bool(padding[:, past:].any()) else None


def positions_of(
    position_ids: Tensor | None, padding: Tensor | None, *, masked: bool, shape: tuple[int, int], cache: AnyformerCache | None
) -> dict[str, Tensor]:
    """`positions` and `documents` of a call, (B, T) each; empty where `position_ids` count from 0 as they would without.

    As in transformers, a position that is not one more than the last starts another document, if there is neither an
    attention_mask (`masked`) nor a cache.
    """
    if position_ids is None:
        return {}
    if position_ids.dim() != 2 or position_ids.shape[1] != shape[1] or position_ids.shape[0] not in (1, shape[0]):
        raise InputError(f"position_ids should have shape {shape} or {(1, shape[1])}, got {tuple(position_ids.shape)}")
    given = position_ids.expand(shape)
    if cache is not None:
        _check_counted(given, padding, cache.positions(shape, padding))
        return {}
    starts = torch.diff(given, dim=1, prepend=given[:, :1] - 1) != 1
    documents = starts.cumsum(1)
    real = torch.ones_like(starts) if padding is None else ~padding
    positions = torch.where(real, given, EMPTY)
    if torch.compiler.is_compiling():
        return {"positions": positions} if masked else {"positions": positions, "documents": documents}
    offsets = given - (real.cumsum(1) - 1)
    first = offsets.gather(1, real.byte().argmax(1, keepdim=True))
    counts_on = bool(((offsets == first) | ~real).all())
    if counts_on and not bool(first.any()):
        return {}
    if not masked:
        return {"positions": positions} if counts_on else {"positions": positions, "documents": documents}
    if not counts_on:
        raise InputError(
            "position_ids that do not count on by one beside an attention_mask would let tokens of one document see another; "
            "for packed documents leave attention_mask out"
        )
    return {"positions": positions}


def check_positions(positions: Tensor | None, longest: int | None) -> None:
    """Refuse positions beyond a table of `longest` positions."""
    if positions is None or longest is None or torch.compiler.is_compiling():
        return
    if int(positions.max()) >= longest:
        raise InputError(f"position_ids reach {int(positions.max())}, and the position table has 0 to {longest - 1}")


def types_of(token_type_ids: Tensor | None, *, table: bool) -> dict[str, Tensor]:
    """Segment `types` of a call. Without a `table` of them, tokenizers' zeros are ignored, and anything else is refused."""
    if token_type_ids is None or (not table and not bool(token_type_ids.any())):
        return {}
    if not table:
        raise InputError("token_type_ids: this architecture has one kind of segment; set embedding.types, or leave them out")
    return {"types": token_type_ids}


def _check_counted(given: Tensor, padding: Tensor | None, counted: Tensor) -> None:
    """Refuse positions other than those that the cache counts."""
    if torch.compiler.is_compiling():
        return
    differs = (given != counted) if padding is None else (given != counted) & ~padding
    if bool(differs.any()):
        raise InputError(
            f"position_ids should continue from the positions in the cache, at {counted[:, 0].tolist()}, and they begin at "
            f"{given[:, 0].tolist()}; leave them out"
        )
