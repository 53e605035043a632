"""Predictions of later tokens that go wrong, and parts of which a model cannot be priced, drawn or saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from tests.testing.wrong.fading import FadingSum
from tests.testing.wrong.mixers import MIXERS, owed
from tests.testing.wrong.mixers_built import HalvesAgain
from tests.testing.wrong.table import Promises, Table
from torch import Tensor

from anyformer.model import Architecture
from anyformer.operations import Flops, Shape, Tally, Weight
from anyformer.parts import Attention, FeedForward, RMSNorm, SequentialPrediction
from anyformer.parts.call.context import Context
from anyformer.parts.feedforward.feedforward_module import FeedForwardModule
from anyformer.parts.layers.multi_token import Trunk
from anyformer.parts.layers.multi_token_module import PredictionsModule, SequentialModule
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.testing import whole
from anyformer.testing.around import decoder_of


def predicting(made: type[SequentialPrediction]) -> Architecture:
    return decoder_of(Attention(heads=4), mtp=made(norm=RMSNorm(), depth=2))


class WrongPrediction(SequentialPrediction):
    """A prediction with another module."""

    kind: Literal["wrong_prediction"] = "wrong_prediction"

    class Module(SequentialModule):
        """The right one."""

    def build(self, width: int, stack: Stack, plan: Plan, name: str) -> PredictionsModule:
        return self.Module(self, width, stack, plan, name)


@MIXERS.breaks(
    "first_prediction_is_the_forward_pass", "declared_values_are_seen", of=predicting,
    because="what the head reads is seen before it is changed",
)  # fmt: skip
class ScalesInPlace(WrongPrediction):
    """Changes the features that the head reads."""

    kind: Literal["scales_in_place"] = "scales_in_place"

    class Module(SequentialModule):
        def forward(self, trunk: Trunk) -> list[Tensor]:
            trunk.features.mul_(1.1)
            return super().forward(trunk)


@MIXERS.breaks("no_prediction_sees_its_token", of=predicting)
class SeesItsToken(WrongPrediction):
    """Reads with every token the next one of its document, which is the one to predict."""

    kind: Literal["sees_its_token"] = "sees_its_token"

    class Module(SequentialModule):
        def forward(self, trunk: Trunk) -> list[Tensor]:
            following, documents = F.pad(trunk.embedded[:, 1:], (0, 0, 0, 1)), trunk.context.documents
            if documents is not None:
                following = following * (F.pad(documents[:, 1:], (0, 1), value=-1) == documents)[..., None]
            return super().forward(replace(trunk, embedded=trunk.embedded + following))


@MIXERS.breaks(
    "no_prediction_sees_its_token", "patched_values_are_gone_on_with", of=predicting,
    because="the scores of a query that sees one key change nothing",
)  # fmt: skip
class SeesNoToken(WrongPrediction):
    """Predicts the same of every text."""

    kind: Literal["sees_no_token"] = "sees_no_token"

    class Module(SequentialModule):
        def layer(self, i: int, x_BTD: Tensor, context: Context) -> Tensor:
            return super().layer(i, 0 * x_BTD + 1, context)


@MIXERS.breaks("packed_predictions_equal_each_alone", of=predicting)
class JoinsPredictions(WrongPrediction):
    """Its layer sees the document before."""

    kind: Literal["joins_predictions"] = "joins_predictions"

    class Module(SequentialModule):
        def layer(self, i: int, x_BTD: Tensor, context: Context) -> Tensor:
            return super().layer(i, x_BTD, replace(context, documents=None))


@MIXERS.breaks("predictions_in_bf16_stay_near_fp32", of=predicting)
class CancelsPredictions(WrongPrediction):
    """Adds and takes away a large number, in the type of the activations."""

    kind: Literal["cancels_predictions"] = "cancels_predictions"

    class Module(SequentialModule):
        def layer(self, i: int, x_BTD: Tensor, context: Context) -> Tensor:
            return super().layer(i, (x_BTD + 1e3) - 1e3 if x_BTD.dtype == torch.bfloat16 else x_BTD, context)


def used(made: type[Sublayer]) -> Promises:
    """All contracts of a model, those of what is done with it among them."""
    architecture = decoder_of(made()) if issubclass(made, FadingSum) else decoder_of(made(width=8))  # type: ignore[call-arg]
    further = {each.name: partial(each.holds, architecture) for each in whole.CONTRACTS if not each.last}
    return {**owed(made if issubclass(made, FadingSum) else architecture), **further}


WHOLE = Table(used)


@WHOLE.breaks("training_is_priced")
class AsLongAsTheText(FadingSum):
    """Declares one more weight of any text that is longer than one token."""

    kind: Literal["as_long_as_the_text"] = "as_long_as_the_text"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        more = Tally({"table": Weight((shape.length,), "replicate", "ones")}) if shape.length > 1 else Tally()
        return super().cost(width, shape, plan) + more


@WHOLE.breaks(
    "training_is_priced", "traced_bytes_are_those_that_autograd_keeps", because="what cannot be traced has no bytes either"
)
class LooksForNaN(FeedForward):
    """Reads a number of its output in training, which has none while it is traced."""

    kind: Literal["looks_for_nan"] = "looks_for_nan"

    class Module(FeedForwardModule):
        def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
            y_BTD = super().forward(x_BTD, context, state)
            assert not self.training or not y_BTD.isnan().any(), "NaN"
            return y_BTD

    def build(self, width: int, plan: Plan, name: str) -> FeedForwardModule:
        return self.Module(self, width, name)


@dataclass(frozen=True)
class OwnProduct:
    """A product as somebody writes one who does not know that there is `Product`."""

    flops: Flops


@WHOLE.breaks("operations_add_up_to_the_sheet")
class OwnOperation(FadingSum):
    """Declares its FLOPs by an operation that no price knows: they are counted, and take no time."""

    kind: Literal["own_operation"] = "own_operation"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        found = super().cost(width, shape, plan)
        product: Any = OwnProduct(found.own_work["gate"].flops)
        return replace(found, own_work={**found.own_work, "gate": product})


@WHOLE.breaks("traced_bytes_are_those_that_autograd_keeps")
class TracedOtherwise(FeedForward):
    """Takes another path where tensors have no numbers."""

    kind: Literal["traced_otherwise"] = "traced_otherwise"

    class Module(FeedForwardModule):
        def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
            y_BTD = super().forward(x_BTD, context, state)
            return y_BTD * torch.ones_like(y_BTD) if type(y_BTD) is Tensor and not y_BTD.is_meta else y_BTD

    def build(self, width: int, plan: Plan, name: str) -> FeedForwardModule:
        return self.Module(self, width, name)


@WHOLE.breaks("diagram_is_drawn")
class SketchesNothing(FadingSum):
    """Has no box in a diagram."""

    kind: Literal["sketches_nothing"] = "sketches_nothing"

    def sketch(self, width: int) -> Sketch:
        raise NotImplementedError


@WHOLE.breaks(
    "saved_and_exported_are_loaded_again", "description_survives_text", because="a checkpoint has its description as text"
)
class HalvesWhenLoaded(HalvesAgain):
    """Halves a field whenever it is read."""

    kind: Literal["halves_when_loaded"] = "halves_when_loaded"
