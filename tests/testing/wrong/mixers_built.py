"""Mixers whose module is not what they declare, each in one respect."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import BeforeValidator
from tests.testing.wrong.fading import FadingModule, FadingState, FadingSum
from tests.testing.wrong.mixers import MIXERS
from torch import Tensor, nn

from anyformer.operations import Contraction, Limit, Pairs, Shape, StateBytes, Tally, Weight
from anyformer.operations.work import Product
from anyformer.parts import FeedForward
from anyformer.parts.call.context import Context
from anyformer.parts.feedforward.feedforward_module import FeedForwardModule
from anyformer.plan import Plan
from anyformer.testing.around import decoder_of


@MIXERS.breaks("declared_weights_are_the_parameters")
class MissingBias(FadingSum):
    """Declares a bias that is not there."""

    kind: Literal["missing_bias"] = "missing_bias"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        return super().cost(width, shape, plan) + Tally({"gate.bias": Weight((self.features,), "column", "zeros")})


@MIXERS.breaks(
    "forward_pass_is_computed", "sublayer_equals_its_twin", "every_weight_learns", "kernels_agree", "bf16_stays_near_fp32",
    "no_token_sees_a_later_one", "any_chunk_equals_the_default_chunk", "padded_row_equals_the_row_alone",
    "packed_documents_equal_each_alone", "parts_of_sublayers_add_up", "positions_of_sublayers_are_those_of_the_row",
    "cached_and_chunked_equal_the_whole", "left_padding_goes_with_a_state", "right_padding_goes_with_a_state",
    "later_padding_is_taken_or_refused", "forked_state_continues_like_its_row", "watching_changes_no_bit",
    "patched_values_are_gone_on_with",
    because="whatever compares outputs reads numbers that are none",
)  # fmt: skip
class GivesNoNumbers(FadingSum):
    """Divides by zero."""

    kind: Literal["gives_no_numbers"] = "gives_no_numbers"

    class Module(FadingModule):
        def forward(self, x: Tensor, context: Context, state: FadingState | None = None) -> Tensor:
            return super().forward(x, context, state) * float("nan")


@MIXERS.breaks("no_matrix_of_products_is_looked_up")
class LooksUp(FadingSum):
    """Reads a row of a matrix, and forgets to say so."""

    kind: Literal["looks_up"] = "looks_up"

    class Module(FadingModule):
        def forward(self, x: Tensor, context: Context, state: FadingState | None = None) -> Tensor:
            row = F.embedding(torch.zeros_like(context.positions), self.output.weight)
            return super().forward(x, context, state) + 0 * row.sum()


@MIXERS.breaks("description_survives_text")
class HalvesAgain(FadingSum):
    """Halves a field whenever it is read."""

    kind: Literal["halves_again"] = "halves_again"
    start: Annotated[float, BeforeValidator(lambda given: given / 2)] = 0.8


@MIXERS.breaks("model_survives_pickle")
class KeepsFunction(FadingSum):
    """Its module holds a function without a name."""

    kind: Literal["keeps_function"] = "keeps_function"

    class Module(FadingModule):
        def __init__(self, part: FadingSum, width: int, plan: Plan) -> None:
            super().__init__(part, width, plan)
            self.unwritable = lambda: None


@MIXERS.breaks("materialised_equals_built")
class Buffered(FadingSum):
    """Its module holds a table that a build without values leaves empty."""

    kind: Literal["buffered"] = "buffered"

    class Module(FadingModule):
        def __init__(self, part: FadingSum, width: int, plan: Plan) -> None:
            super().__init__(part, width, plan)
            self.register_buffer("table", torch.ones(3), persistent=False)


@MIXERS.breaks("kernels_agree")
class WrongKernel(FadingSum):
    """One of its two kernels has another factor."""

    kind: Literal["wrong_kernel"] = "wrong_kernel"

    class Module(FadingModule):
        def summed(self, sums: Tensor) -> Tensor:
            return sums * 1.1 if self.plan.attention == "plain" else sums


@MIXERS.breaks("bf16_stays_near_fp32")
class Cancels(FadingSum):
    """Adds and takes away a large number, in the type of the activations."""

    kind: Literal["cancels"] = "cancels"

    class Module(FadingModule):
        def summed(self, sums: Tensor) -> Tensor:
            return (sums + 1e3) - 1e3 if sums.dtype == torch.bfloat16 else sums


@MIXERS.breaks("every_weight_learns", of=lambda made: decoder_of(made(width=8)))
class UnusedGain(FeedForward):
    """Has a weight that it does not use. It has no state, since gradients by chunk would miss one too."""

    kind: Literal["unused_gain"] = "unused_gain"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        return super().cost(width, shape, plan) + Tally({"gain": Weight((3,), "replicate", "ones")})

    def build(self, width: int, plan: Plan, name: str) -> FeedForwardModule:
        made = super().build(width, plan, name)
        made.gain = nn.Parameter(torch.ones(3))
        return made


@MIXERS.breaks(
    "every_weight_learns",
    "declared_flops_are_counted",
    "declared_flops_of_chunks_are_counted",
    "any_chunk_equals_the_default_chunk",
    "sublayer_equals_its_twin",
    because="a gradient is missed wherever gradients are compared, and so are its products where these are counted",
)
class DetachedGate(FadingSum):
    """No gradient passes its gate."""

    kind: Literal["detached_gate"] = "detached_gate"

    class Module(FadingModule):
        def activated(self, x: Tensor) -> Tensor:
            return super().activated(x).detach()


@MIXERS.breaks("sublayer_equals_its_twin")
class WrongFactor(FadingSum):
    """Another formula than it says."""

    kind: Literal["wrong_factor"] = "wrong_factor"

    class Module(FadingModule):
        def summed(self, sums: Tensor) -> Tensor:
            return 1.1 * sums


@MIXERS.breaks("declared_flops_are_counted")
class WholeChunk(FadingSum):
    """Declares the work of a whole chunk for a text that is shorter than one."""

    kind: Literal["whole_chunk"] = "whole_chunk"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        short = 1 < shape.length < plan.chunk
        return super().cost(width, shape, plan) + (Tally(own_work={"chunk": Contraction(plan.chunk)}) if short else Tally())


@MIXERS.breaks("declared_flops_of_chunks_are_counted")
class BetweenChunks(FadingSum):
    """Declares a product between chunks, where there are several, that it does not compute."""

    kind: Literal["between_chunks"] = "between_chunks"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        several = shape.length > plan.chunk
        return super().cost(width, shape, plan) + (Tally(own_work={"between": Contraction(8)}) if several else Tally())


@MIXERS.breaks("declared_flops_of_a_decode_step_are_counted")
class ReadsBack(FadingSum):
    """Declares products with the past, of which a step computes none."""

    kind: Literal["reads_back"] = "reads_back"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        return super().cost(width, shape, plan) + Tally(own_work={"past": Contraction(shape.past)})


@MIXERS.breaks("exact_flops_never_exceed_dense_ones")
class MoreThanAll(FadingSum):
    """Declares that a mask allows more pairs than there are."""

    kind: Literal["more_than_all"] = "more_than_all"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        return super().cost(width, shape, plan) + Tally(own_work={"pairs": Pairs(1, 1, 1, 0, 10**9, 1, "keys")})


@MIXERS.breaks(
    "declared_flops_are_counted",
    "declared_flops_of_chunks_are_counted",
    because="of both passes the whole is the case of one chunk",
)
class ConstantInputs(FadingSum):
    """Declares that the inputs of a product take no gradient: wrong in the backward pass alone."""

    kind: Literal["constant_inputs"] = "constant_inputs"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        found = super().cost(width, shape, plan)
        value = found.own_work["value"]
        assert isinstance(value, Product)
        return replace(found, own_work={**found.own_work, "value": replace(value, constant=True)})


@MIXERS.breaks(
    "declared_flops_are_counted",
    "declared_flops_of_chunks_are_counted",
    "declared_flops_of_a_decode_step_are_counted",
    because="a product that no cost has is missing wherever products are counted",
)
class UndeclaredGate(FadingSum):
    """Declares the weight of its gate, and not the product with it."""

    kind: Literal["undeclared_gate"] = "undeclared_gate"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        found = super().cost(width, shape, plan)
        return replace(found, own_work={name: each for name, each in found.own_work.items() if name != "gate"})


@MIXERS.breaks("saved_bytes_are_a_polynomial_of_the_length")
class SavesLogarithm(FadingSum):
    """Keeps more for the backward pass with every doubling of the text."""

    kind: Literal["saves_logarithm"] = "saves_logarithm"

    class Module(FadingModule):
        def summed(self, sums: Tensor) -> Tensor:
            for _ in range(sums.shape[1].bit_length()):
                sums = sums * (1 + 0 * sums[:, :1])
            return sums


@MIXERS.breaks("state_takes_the_declared_bytes")
class HalfTheBytes(FadingSum):
    """Declares its state in the type of the activations, and holds it in fp32."""

    kind: Literal["half_the_bytes"] = "half_the_bytes"

    def held(self, shape: Shape, plan: Plan) -> StateBytes:
        held = shape.batch * self.features * plan.activation_bytes
        return StateBytes.of(shape, held, held)


@MIXERS.breaks("no_token_sees_a_later_one")
class NeedlessLimit(FadingSum):
    """Says that it looks ahead, and does not."""

    kind: Literal["needless_limit"] = "needless_limit"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        return super().cost(width, shape, plan) + Tally(own_limits=(Limit("causal", "it looks ahead"),))
