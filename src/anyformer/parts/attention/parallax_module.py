"""What Parallax computes: products of second queries with keys, and the weights that they correct."""

from __future__ import annotations

from torch import Tensor

from anyformer.parts.attention.scores import attention_weights, by_group
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.slots_module import AttentionInputs


def along(r_BTW: Tensor, given: AttentionInputs, call: AttentionCall) -> Tensor:
    """c = r . k, (B, H, T, S) in fp32, of heads side by side that are placed as queries are."""
    r_BTHE = r_BTW.view(*r_BTW.shape[:2], -1, given.query.shape[-1])
    for place in call.attention.heads.place.values():
        r_BTHE = place.turned(r_BTHE, "query", call.context, call.attention)
    r_BHTE = r_BTHE.transpose(1, 2).to(given.key.dtype)
    return (by_group(r_BHTE, given.key.shape[1]) @ given.key.mT).view(*given.query.shape[:3], -1).float()


def corrected(along_BHTS: Tensor, scores_BHTS: Tensor, allowed: Tensor | None) -> Tensor:
    """The weights of scores where `allowed`, less their covariance with c."""
    weights_BHTS = attention_weights(scores_BHTS, allowed, None)[0]
    return weights_BHTS * (1 + (weights_BHTS * along_BHTS).sum(-1, keepdim=True) - along_BHTS)
