"""Differential weighing: the difference of two attention maps, so that noise in both cancels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import model_validator

from anyformer.operations import Shape, Tally, Watchables, Weight, inside, total
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.weigh import Map, Softmax, Weigh
from anyformer.parts.derived import LayerShare
from anyformer.parts.norms.layer_norm import RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.attention.slots_module import AttentionInputs


LAMBDAS = ("query_1", "key_1", "query_2", "key_2")


class Differential(Weigh):
    """(softmax(q1 k1^T) - lambda softmax(q2 k2^T)) [v1, v2], normalised, times 1 - lambda_init (Ye et al. 2024, 2410.05258).

    The first half of the H heads gives q1, k1, v1, the second q2, k2, v2, so there are H / 2 outputs 2 U wide.
    lambda = exp(a1 . b1) - exp(a2 . b2) + lambda_init, with learned a, b: (E,). The paper's d is E, its h is H / 2, its
    lambda_init `by_layer`.
    """

    rules_out: ClassVar[frozenset[Way]] = frozenset({"chosen keys", "divided heads", "outside", "layout", "latent"})
    through: ClassVar[tuple[str, ...]] = ("maps",)
    bare: ClassVar[bool] = False
    kind: Literal["differential"] = "differential"
    maps: Map = Softmax()
    """How scores become the weights of each map."""
    lambda_init: LayerShare = 0.8
    """First value of lambda. `by_layer`: 0.8 - 0.6 exp(-0.3 l) in layer l (from 0)."""
    head_norm: Norm = RMSNorm(gain="none")
    """Norm of each output, over 2 U."""

    @model_validator(mode="after")
    def _of_half(self) -> Differential:
        if given := self.maps.in_the_way("pairs of heads"):
            raise ValueError(f"a map has half of the heads: leave {' and '.join(given)} out")
        return self

    @property
    def each(self) -> int:
        return self.maps.each

    @property
    def dropped(self) -> float:
        return self.maps.dropped

    @property
    def called(self) -> str:
        return "differential_attention"

    @property
    def mixing(self) -> str:
        return "differential"

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.maps.words, "difference of two halves of the heads")

    @property
    def technique(self) -> str | None:
        return self.maps.technique

    def of_layer(self, layer: int, depth: int) -> Self:
        return self.but(lambda_init=0.8 - 0.6 * math.exp(-0.3 * layer)) if self.lambda_init == "by_layer" else self

    def of_pairs(self, sizes: HeadSizes, shape: Shape, pairs: int) -> Tally:
        return self.maps.of_pairs(sizes, shape, pairs)

    def check(self, sizes: HeadSizes) -> None:
        if sizes.heads % 2 or sizes.groups % 2:
            raise ValueError(
                f"differential attention needs two halves of heads, got heads = {sizes.heads} and kv_heads = {sizes.groups}"
            )

    def mixed(self, heads: int, value_width: int) -> tuple[int, int]:
        return heads // 2, 2 * value_width

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.slots_module import parameters

        vectors = parameters({f"lambda_{name}": (sizes.head_width,) for name in LAMBDAS})
        return {**self.maps.build(sizes), **vectors, "head_norm": self.head_norm.build(sizes.mixed[1])}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        pairs, features = sizes.mixed
        vectors = {f"lambda_{name}": Weight((sizes.head_width,), "replicate", "zeros") for name in LAMBDAS}
        norm = total({"head_norm": self.head_norm.cost(features, shape.rows * pairs)})
        return self.maps.cost(sizes, shape, key_rows) + Tally(vectors) + norm

    def watchable(self, heads: int) -> Watchables:
        of_half = self.maps.watchable(heads // 2)
        return {**inside("maps[0]", of_half), **inside("maps[1]", of_half)}

    def attended(self, given: AttentionInputs, call: AttentionCall) -> Tensor:
        """(B, H / 2, T, 2 U)."""
        first, second = (self.maps.attended(half, call.of_map(i)) for i, half in enumerate(given.halves))
        assert not isinstance(self.lambda_init, str), "a number in each layer: see `of_layer`"
        mixed: Tensor = call.built("head_norm")(first - self.strength(call).to(first.dtype) * second)
        return mixed * (1 - self.lambda_init)

    def strength(self, call: AttentionCall) -> Tensor:
        """lambda, one number in fp32."""
        a1, b1, a2, b2 = (call.built(f"lambda_{name}").float() for name in LAMBDAS)
        strength: Tensor = (a1 * b1).sum().exp() - (a2 * b2).sum().exp() + self.lambda_init
        return strength
