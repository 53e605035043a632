"""Multi-token prediction: layers that predict the tokens after the next one in training; and DeepSeek's modules of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count, Registry
from anyformer.operations import Inner, Shape, Tally, Watchable, Watchables, inside, matrix, total, value
from anyformer.parts.call.shared import TOKENS
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.stack import Stack
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Drawn, Sketch, number
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.call.context import Context
    from anyformer.parts.layers.multi_token_module import PredictionsModule


_FEW, _FEW_WITH_PREFIX = Shape(length=4), Shape(length=4, prefix=3)


@dataclass(frozen=True)
class Trunk:
    """What a call of the main model hands to the predictions, each (B, T, D): `features`, which the head reads, `stream`, which
    enters the last layer, and `embedded`, which enters the first. `norm`: the norm after the layers.
    """

    features: Tensor
    stream: Tensor
    embedded: Tensor
    norm: Callable[[Tensor], Tensor]
    context: Context


class MultiToken(Drawn):
    """Predictions of the token k after the next one, k = 1 ... depth, from position i of the first T - k: p(t_{i+1+k}).

    They share the embedding and the head of the main model, train it further, and are left out when it generates.
    """

    kinds: ClassVar[Registry] = Registry()
    through: ClassVar[tuple[str, ...]] = ("block",)
    reads_stream: ClassVar[bool] = False
    """Whether it learns from what enters the last layer of the main model."""
    kind: str
    depth: Count = 1
    """The number of predictions beside that of the next token (DeepSeek-V3's D, Gloeckle's n - 1)."""
    block: Block | None = None
    """The layer of each prediction; absent, as the last layer of the main model."""

    def sketch(self, width: int) -> Sketch:
        tokens = "1 later token" if self.depth == 1 else f"{self.depth} later tokens"
        layer = "a layer like the last one" if self.block is None else "a layer of its own"
        return Sketch(f"{tokens}, in training alone", (*self.entering(width), layer, "the same head"))

    def entering(self, width: int) -> tuple[str, ...]:
        """What enters the layer of a prediction, in words; nothing by default, in diagrams."""
        return ()

    def block_of(self, stack: Stack, k: int) -> Block:
        """The layer of prediction k = 1 ... depth, with a number for every factor that follows from the layer's."""
        return self.layer(stack).of_layer(*self.number_of(stack, k))

    def layer(self, stack: Stack) -> Block:
        """The layer of each prediction, written out."""
        return stack.variants[stack.layers[-1]] if self.block is None else self.block

    def number_of(self, stack: Stack, k: int) -> tuple[int, int]:
        """The number of the layer of prediction k, and of how many layers."""
        raise NotImplementedError

    def resolved(self, width: int) -> MultiToken:
        """A copy with a number for every size and factor that follows from the width."""
        return self if self.block is None else self.but(block=self.block.resolved(width))

    def check(self, width: int, stack: Stack) -> None:
        """Refuse a layer that reads what no prediction has, or that sees later tokens, among them the one to predict."""
        block = self.layer(stack)
        for read in block.reads:
            if read != TOKENS and (read.required or read.name in stack.leaves):
                raise ValueError(
                    f"mtp: the layer reads {read.name!r}, which nothing leaves for predictions: give mtp a block without"
                )
        if block.needs_streams is not None:
            raise ValueError(f"mtp: {block.needs_streams.format('the layer')}")
        block.check(width, "mtp.block")
        tally = block.cost(width, _FEW, Plan())
        reasons = tally.breaks("stepwise", training=True)
        if block.cost(width, _FEW_WITH_PREFIX, Plan()).total_flops.exact != tally.total_flops.exact:
            reasons = ("a prefix mask shows a token the ones after it",)
        if reasons:
            raise ValueError(
                f"mtp: the layer shows a token those to predict: {'; '.join(reasons)}. Give it a mask of the past only"
            )

    def build(self, width: int, stack: Stack, plan: Plan, name: str) -> PredictionsModule:
        """The module."""
        raise NotImplementedError

    def watchable(self, width: int, stack: Stack, outputs: int) -> Watchables:
        """The values that are seen of it, in the order computed: those of prediction 1 begin with `layer[0]`."""
        layer = self.layer(stack).watchable(width)
        said = {"logits": value("BTV", "what the head gives of a later token", V=outputs)}
        numbers, found = range(self.depth), dict[str, Watchable]()
        for name, values in (("layer", layer), ("head", said)):
            found |= {each: of for k in numbers for each, of in inside(f"{name}[{k}]", values).items()}
        return found

    def cost(self, width: int, stack: Stack, shape: Shape, plan: Plan) -> Tally:
        """Its weights, and its work in training on T positions, the head's left out: prediction k is made at T - k of them."""
        tally = Tally()
        for k in range(1, self.depth + 1):
            own = replace(shape, length=max(shape.length - k, 1), past=0, prefix=0, capacity=None)
            block = {f"layers.{k - 1}": Inner(self.block_of(stack, k).cost(width, own, plan), "layer", str(k - 1))}
            around = self._around(width, stack, own)
            ends = {f"{name}s.{k - 1}": Inner(part, "branch", name) for name, part in around.items()}
            made = Tally(inner={**block, **ends}).without("state")
            tally += made if shape.length > k else made.without("work")
        return tally

    def _around(self, width: int, stack: Stack, shape: Shape) -> dict[str, Tally]:
        """The tallies of what stands before (`entrance`) and after (`exit`) the layer of a prediction."""
        raise NotImplementedError


def shared_exit(stack: Stack, width: int, shape: Shape) -> dict[str, Tally]:
    """The main model's last norm, once more: its work without its weights."""
    norm = stack.final_norm
    return {} if norm is None else {"exit": total({"final_norm": norm.cost(width, shape.rows).without("weights")})}


class SequentialPrediction(MultiToken):
    """h_k,i = block(M_k [norm(x_{i+k}); norm(h_{k-1,i})]), logits = head(norm(h_k,i)), x the embedded tokens, h_0 the features.

    DeepSeek-V3's modules (arXiv 2412.19437, section 2.2): each reads the one before, so the chain of causes stays whole. M_k is
    (D, 2 D); the paper writes its two halves in the other order, published weights have them in this one.
    """

    kind: Literal["sequential"] = "sequential"
    norm: Norm
    """The norms of the embedding and of the features, and the norm before the head, each with weights of its own."""
    bias: bool = False
    """Whether M_k adds a bias."""
    shared_norm: bool = False
    """Whether the norm before the head is the main model's last, and not one of each module's own (ERNIE 4.5)."""

    def entering(self, width: int) -> tuple[str, ...]:
        return "norms of stream and next embedding", f"both, {number(2 * width)} → {number(width)}"

    def number_of(self, stack: Stack, k: int) -> tuple[int, int]:
        return stack.depth + k - 1, stack.depth + self.depth

    def build(self, width: int, stack: Stack, plan: Plan, name: str) -> PredictionsModule:
        from anyformer.parts.layers.multi_token_module import SequentialModule

        return SequentialModule(self, width, stack, plan, name)

    def _around(self, width: int, stack: Stack, shape: Shape) -> dict[str, Tally]:
        norm = self.norm.cost(width, shape.rows)
        projection = matrix("", 2 * width, width, shape.rows, role="replicate", bias=self.bias)
        entrance = total({"embedding_norm": norm, "hidden_norm": norm, "projection": projection})
        last = shared_exit(stack, width, shape) if self.shared_norm else {"exit": total({"final_norm": norm})}
        return {"entrance": entrance} | last
