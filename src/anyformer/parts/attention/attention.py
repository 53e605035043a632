"""Self-attention: multi-head, multi-query and grouped-query, with any head width, positions and score biases."""

from __future__ import annotations

from typing import Literal, Self

from anyformer.parts.attention.attention_module import AttentionModule
from anyformer.parts.attention.self_attention import SelfAttention
from anyformer.parts.layout import HeadsLayout, WeightLayout
from anyformer.plan import Plan


class Attention(SelfAttention):
    """Self-attention: softmax(q k^T * scale where mask) v, heads side by side, then the output projection.

    q = x W_q: (B, T, H, E); k, v = x W_k, x W_v: (B, T, K, E); query head h reads kv head h // (H / K). Multi-head:
    Vaswani et al. 2017 (arXiv 1706.03762), multi-query: Shazeer 2019 (1911.02150), grouped: Ainslie et al. 2023 (2305.13245).
    The papers' d_model is D, d_k and d_v are E, h is H.
    """

    kind: Literal["attention"] = "attention"

    def build(self, width: int, plan: Plan, name: str) -> AttentionModule:
        return AttentionModule(self, width, plan, name)

    def narrowed(self, width: int, ways: int) -> Self | None:
        # A score bias is made for all heads, and so is a kernel of a convolution.
        return self.of_heads(width, ways) if self.score_bias is None and self.convolution is None else None

    def layout(self, width: int) -> WeightLayout:
        own = self.keys_from is None and self.values == "own" and self.grouped is None and self.convolution is None
        beyond = {
            "bias": bool({"query", "key", "value"} & set(self.bias)), "qk_norm": self.qk_norm, "value_norm": self.value_norm,
            "clip": self.clip, "softcap": self.softcap, "sink": self.sink, "weights": self.weights, "sub_norm": self.sub_norm,
            "score_bias": self.score_bias, "temperature": self.temperature, "forget": self.forget,
            "virtual_tokens": self.virtual_tokens, "value_embedding": self.value_embedding, "exclusive": self.exclusive,
            "value_residual": self.value_residual, "value_convolution": self.value_convolution, "joined": self.joined,
            "lora": self.lora, "dropout": self.dropout,
        }  # fmt: skip
        heads = HeadsLayout(
            self.heads, self.groups, self.width_of_head(width), self.width_of_value(width), self.scale_of(width),
            self.value_scale, self.rotary, "query.weight", "key.weight", "value.weight", "output.weight",
            tuple(name for name, given in beyond.items() if given),
        )  # fmt: skip
        return WeightLayout(heads=heads if own else None)
