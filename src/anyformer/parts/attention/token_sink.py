"""Attention sinks whose size the query's token decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Dimension, Shape, Tally, matrix
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.weigh import Map
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor


class TokenSink(Map):
    """a_ij = exp(s_ij) / (exp(z_i) + sum over j of exp(s_ij)), z = x W: (B, T, H), one logit per head and query, which has no
    value: a token says how much of its attention goes nowhere (Inkling 2, Thinking Machines 2026; transformers 5.23)."""

    rules_out: ClassVar[frozenset[Way]] = Map.rules_out | {"layout", "pairs of heads", "source", "two inputs"}
    kind: Literal["token_sink"] = "token_sink"

    @property
    def technique(self) -> str:
        return "sinks"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from torch import nn

        return {"token_sink": nn.Linear(sizes.inputs, sizes.heads, bias=False)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        of_heads: Dimension = (("heads", sizes.heads),)
        return matrix("token_sink", sizes.inputs, sizes.heads, shape.rows, role="column", outputs_as=of_heads)

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        import torch

        sink_BHT1 = call.built("token_sink")(call.x).float().transpose(1, 2)[..., None]
        if allowed is not None:
            scores_BHTS = scores_BHTS.masked_fill(~allowed, float("-inf"))
        whole = torch.cat([scores_BHTS, sink_BHT1.expand(*scores_BHTS.shape[:-1], 1)], -1).softmax(-1)
        return whole[..., :-1]
