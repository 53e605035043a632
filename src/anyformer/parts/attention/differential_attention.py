"""Differential attention: the difference of two attention maps, so that noise in both cancels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from anyformer.operations import Shape, Tally, Weight, total
from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attention_module import AttentionModule
from anyformer.parts.attention.scores import pair_work
from anyformer.parts.attention.self_attention import SelfAttention
from anyformer.parts.call.context import Context, Visible
from anyformer.parts.derived import LayerShare
from anyformer.parts.norms.layer_norm import RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan


class DifferentialAttention(SelfAttention):
    """(softmax(q1 k1^T) - lambda softmax(q2 k2^T)) [v1, v2], normalised, times 1 - lambda_init (Ye et al. 2024, 2410.05258).

    The first half of the H heads gives q1, k1, v1, the second q2, k2, v2, so there are H / 2 outputs 2 E wide.
    lambda = exp(a1 . b1) - exp(a2 . b2) + lambda_init, with learned a, b: (E,). The paper's d is E, its h is H / 2, its
    lambda_init `by_layer`.
    """

    kind: Literal["differential_attention"] = "differential_attention"
    lambda_init: LayerShare = 0.8
    """First value of lambda. `by_layer`: 0.8 - 0.6 exp(-0.3 l) in layer l (from 0)."""
    head_norm: Norm = RMSNorm(gain="none")
    """Norm of each output, over 2 U."""

    @model_validator(mode="after")
    def _halves(self) -> DifferentialAttention:
        if self.heads % 2 or self.groups % 2:
            raise ValueError(
                f"differential attention needs two halves of heads, got heads = {self.heads} and kv_heads = {self.groups}"
            )
        beside = {"exclusive": self.exclusive, "value_convolution": self.value_convolution}
        if given := [name for name, part in beside.items() if part is not None]:
            raise ValueError(f"differential attention mixes values in pairs of heads: leave {' and '.join(given)} out")
        if self.keys_from is not None or self.values == "keys" or self.value_residual is not None:
            raise ValueError(
                "differential attention has keys and values of its own: leave keys_from, values and value_residual out"
            )
        return self

    def of_layer(self, layer: int, depth: int) -> Self:
        return self.but(lambda_init=0.8 - 0.6 * math.exp(-0.3 * layer)) if self.lambda_init == "by_layer" else self

    @property
    def title(self) -> str:
        return "Differential attention"

    @property
    def facts(self) -> tuple[str, ...]:
        return ("difference of two halves of the heads", *super().facts)

    @property
    def traits(self) -> Traits:
        return replace(super().traits, mixing="differential")

    def mixed(self, width: int) -> tuple[int, int]:
        return self.heads // 2, 2 * self.width_of_value(width)

    def build(self, width: int, plan: Plan, name: str) -> DifferentialAttentionModule:
        return DifferentialAttentionModule(self, width, plan, name)

    def products(self, width: int, shape: Shape, pairs: int, exact: int) -> Tally:
        """The products of `Heads`, with values twice as wide."""
        E, U = self.width_of_head(width), self.width_of_value(width)
        return pair_work(shape, self.heads, E, 2 * U, pairs, exact, self.work_of_score)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        E, (pairs, features) = self.width_of_head(width), self.mixed(width)
        norm = self.head_norm.cost(features, shape.rows * pairs)
        vectors = {f"lambda_{name}": Weight((E,), "replicate", "zeros") for name in LAMBDAS}
        return super().cost(width, shape, plan) + Tally(vectors) + total({"head_norm": norm})


LAMBDAS = ("query_1", "key_1", "query_2", "key_2")


class DifferentialAttentionModule(AttentionModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: DifferentialAttention, width: int, plan: Plan, name: str) -> None:
        super().__init__(attention, width, plan, name)
        assert not isinstance(attention.lambda_init, str), "a number in each layer: see `of_layer`"
        self.lambda_init = attention.lambda_init
        for vector in LAMBDAS:
            self.register_parameter(f"lambda_{vector}", nn.Parameter(torch.empty(self.head_width)))
        self.head_norm = attention.head_norm.build(2 * self.value_width)

    def attended(
        self, q_BHTE: Tensor, k_BKSE: Tensor, v_BKSU: Tensor, visible: Visible, context: Context, bias_BHTS: Tensor | None
    ) -> Tensor:
        """(B, H / 2, T, 2 U)."""
        biases = (None, None) if bias_BHTS is None else bias_BHTS.chunk(2, 1)
        sinks = (None, None) if self.sink is None else self.sink.chunk(2)
        values = torch.cat(v_BKSU.chunk(2, 1), -1)
        first, second = (
            attend(
                q, k, values, visible, scale=self.scale, softcap=self.heads.softcap, bias_BHTS=bias, sink_H=sink,
                drop=self.dropout.drop(context.noise), weigh=self.heads.weights, kernel=self.plan.attention,
            )
            for q, k, bias, sink in zip(q_BHTE.chunk(2, 1), k_BKSE.chunk(2, 1), biases, sinks, strict=True)
        )  # fmt: skip
        mixed: Tensor = self.head_norm(first - self.strength().to(first.dtype) * second)
        return mixed * (1 - self.lambda_init)

    def strength(self) -> Tensor:
        """lambda, one number in fp32."""
        a1, b1, a2, b2 = (self.get_parameter(f"lambda_{name}").float() for name in LAMBDAS)
        return (a1 * b1).sum().exp() - (a2 * b2).sum().exp() + self.lambda_init
