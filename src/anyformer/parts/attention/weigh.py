"""The slot of attention that turns scores into mixed values: the softmax, and what stands in its place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from anyformer.describe import Count, Positive, Probability, Registry
from anyformer.operations import Shape, Tally, Watchables, Weight
from anyformer.operations.elementwise import SCORE
from anyformer.parts.attention.named_values import pairs_seen
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.sketch import words
from anyformer.parts.slot import HeadSizes, SlotPart, Way

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.attention.slots_module import AttentionInputs


class Weigh(SlotPart):
    """The base of what makes mixed values of scores. It may have weights of its own."""

    name: ClassVar[str] = "weigh"
    bare: ClassVar[bool] = True
    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def each(self) -> int:
        """Operations that make a score an attention weight, counted as in `operations/elementwise.py`."""
        return SCORE

    @property
    def dropped(self) -> float:
        """The share of attention weights that is dropped in training."""
        return 0.0

    @property
    def called(self) -> str | None:
        """The name of a branch of attention that has it; None: the usual one."""
        return None

    @property
    def mixing(self) -> str | None:
        """Its name in tables of ways of mixing; None: that of the heads."""
        return None

    def in_the_way(self, way: Way) -> tuple[str, ...]:
        return (self.kind,) if way in self.rules_out else ()

    def mixed(self, heads: int, value_width: int) -> tuple[int, int]:
        """The number and the width of the heads that it mixes, of H heads and values of U features."""
        return heads, value_width

    def of_pairs(self, sizes: HeadSizes, shape: Shape, pairs: int) -> Tally:
        """The products, beside those of scores and of mixing, over `pairs` (query, key) pairs of a head and row."""
        return Tally()

    def of_layer(self, layer: int, depth: int) -> Self:
        """A copy for layer `layer` of `depth`, counted from 0."""
        return self

    def watchable(self, heads: int) -> Watchables:
        """The values that are seen of H heads."""
        return pairs_seen(heads)

    def attended(self, given: AttentionInputs, call: AttentionCall) -> Tensor:
        """The mixed values, (B, H, T, U)."""
        raise NotImplementedError


class Map(Weigh):
    """The base of functions from the scores of a query to the weights of its keys, one map of them per head.

    A kind says `weights`, which is given scores written out whatever the plan: torch's kernel knows the softmax alone.
    """

    rules_out: ClassVar[frozenset[Way]] = frozenset({"chosen keys", "outside", "latent"})
    dropout: Probability = 0.0
    """Share of attention weights dropped in training."""

    @property
    def dropped(self) -> float:
        return self.dropout

    @property
    def words(self) -> tuple[str, ...]:
        return (words(self),)

    @property
    def technique(self) -> str | None:
        return self.kind.replace("_", " ")

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        """The weights (B, H, T, S) of scores in fp32; those of keys that are not `allowed`, bool (B or 1, 1 or H, T or 1, S),
        are 0."""
        raise NotImplementedError

    def attended(self, given: AttentionInputs, call: AttentionCall) -> Tensor:
        from anyformer.parts.attention.attend import attend

        return attend(*given.all, weigh=partial(self.weights, call=call), **call.attention.scoring(call))


class Softmax(Map):
    """a_ij = exp(s_ij) / sum over j of exp(s_ij) (Vaswani et al. 2017, arXiv 1706.03762)."""

    rules_out: ClassVar[frozenset[Way]] = frozenset()
    kind: Literal["softmax"] = "softmax"
    sink: Literal["head"] | None = None
    """`head`: a learned logit per head that takes part in the softmax and has no value (gpt-oss)."""

    @property
    def words(self) -> tuple[str, ...]:
        return ("softmax", *(["a sink per head"] if self.sink else []))

    @property
    def technique(self) -> str | None:
        return "sinks" if self.sink else None

    def in_the_way(self, way: Way) -> tuple[str, ...]:
        given = {"sink": self.sink is not None, "dropout": self.dropout > 0}
        ruled_out = {"chosen keys": ("sink",), "outside": ("sink",), "latent": ("sink", "dropout")}.get(way, ())
        return tuple(name for name in ruled_out if given[name])

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        H = sizes.heads
        return Tally({"sink": Weight((H,), "column", "zeros", axes=((("heads", H),),))} if self.sink else {})

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.slots_module import parameters

        return parameters({"sink": (sizes.heads,)}) if self.sink else {}

    def attended(self, given: AttentionInputs, call: AttentionCall) -> Tensor:
        from anyformer.parts.attention.attend import attend

        sink = call.built("sink")[given.heads] if self.sink else None
        return attend(*given.all, sink_H=sink, **call.attention.scoring(call))


class SigmoidWeights(Map):
    """a_ij = sigmoid(s_ij + b), b = -log n: each key by itself, n keys of score 0 together about 1.

    Ramapuram et al. 2024 (arXiv 2409.04431), where n is the trained length. The weights of a query need not add up to 1, so
    keys do not compete, and there is no sink.
    """

    kind: Literal["sigmoid_weights"] = "sigmoid_weights"
    length: Count | None = None
    """n; None: the number of keys that the query sees."""

    @property
    def each(self) -> int:
        return 5

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        if allowed is None:
            return (scores_BHTS - math.log(self.length or scores_BHTS.shape[-1])).sigmoid()
        seen = allowed.sum(-1, keepdim=True).log() if self.length is None else math.log(self.length)
        return (scores_BHTS - seen).sigmoid().masked_fill(~allowed, 0.0)


class Softpick(Map):
    """a_ij = relu(exp(s_ij) - 1) / (eps + sum over j of |exp(s_ij) - 1|): a key of score 0 or less has no weight.

    Zuhri et al. 2025 (arXiv 2504.20966): the negative ones still count in the sum, so that they get gradients. A query may
    leave all keys alone, so there is no sink.
    """

    kind: Literal["softpick"] = "softpick"
    eps: Positive = 1e-6

    @property
    def each(self) -> int:
        return 6

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        if allowed is not None:
            scores_BHTS = scores_BHTS.masked_fill(~allowed, 0.0)  # exp(0) - 1 adds nothing to either sum
        # Both sides of the quotient times exp(-m), m no less than any score: no exponential is above 1.
        largest_BHT1 = scores_BHTS.detach().amax(-1, keepdim=True).clamp(min=0)
        one_BHT1 = (-largest_BHT1).exp()
        beyond_BHTS = (scores_BHTS - largest_BHT1).exp() - one_BHT1
        return beyond_BHTS.relu() / (beyond_BHTS.abs().sum(-1, keepdim=True) + self.eps * one_BHT1)
