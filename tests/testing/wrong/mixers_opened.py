"""Mixers whose inner values are not shown as they say, each in one respect."""

from __future__ import annotations

from typing import Literal

from tests.testing.wrong.fading import FadingModule, FadingState, FadingSum
from tests.testing.wrong.mixers import MIXERS
from torch import Tensor

from anyformer.operations import Watchables, value
from anyformer.parts.call.context import Context


class ShowingSum(FadingSum):
    """Shows what it makes: right."""

    kind: Literal["showing_sum"] = "showing_sum"

    def watchable(self, width: int) -> Watchables:
        return {"made": value("BTD", "what it makes", D=width)}

    class Module(FadingModule):
        def forward(self, x: Tensor, context: Context, state: FadingState | None = None) -> Tensor:
            return context.see("made", super().forward(x, context, state))


@MIXERS.breaks("declared_values_are_seen")
class ShowsUndeclared(ShowingSum):
    """Shows a value that it does not declare."""

    kind: Literal["shows_undeclared"] = "shows_undeclared"

    def watchable(self, width: int) -> Watchables:
        return {}


@MIXERS.breaks("declared_values_are_seen")
class ShowsNothing(ShowingSum):
    """Declares a value that it does not show."""

    kind: Literal["shows_nothing"] = "shows_nothing"
    Module = FadingModule


@MIXERS.breaks("declared_values_are_seen")
class ShowsAnotherShape(ShowingSum):
    """Declares heads where it has features."""

    kind: Literal["shows_another_shape"] = "shows_another_shape"

    def watchable(self, width: int) -> Watchables:
        return {"made": value("BTD", "what it makes", D=width + 1)}


@MIXERS.breaks("watching_changes_no_bit")
class ChangesWhenWatched(ShowingSum):
    """Gives other numbers where somebody watches."""

    kind: Literal["changes_when_watched"] = "changes_when_watched"

    class Module(ShowingSum.Module):
        def forward(self, x: Tensor, context: Context, state: FadingState | None = None) -> Tensor:
            y = super().forward(x, context, state)
            return y if context.opened is None else y * 1.001


@MIXERS.breaks("patched_values_are_gone_on_with")
class KeepsItsOwn(ShowingSum):
    """Shows a value, and goes on with its own."""

    kind: Literal["keeps_its_own"] = "keeps_its_own"

    class Module(FadingModule):
        def forward(self, x: Tensor, context: Context, state: FadingState | None = None) -> Tensor:
            y = super().forward(x, context, state)
            context.see("made", y)
            return y


@MIXERS.breaks("watched_steps_are_those_of_the_whole")
class ShowsAnotherInSteps(ShowingSum):
    """With a state it shows twice the value."""

    kind: Literal["shows_another_in_steps"] = "shows_another_in_steps"

    class Module(FadingModule):
        def forward(self, x: Tensor, context: Context, state: FadingState | None = None) -> Tensor:
            y = super().forward(x, context, state)
            return context.see("made", y) if state is None else context.see("made", 2 * y) / 2


@MIXERS.breaks("watched_steps_are_those_of_the_whole")
class HoldsItsOwn(FadingSum):
    """Shows its state, and holds its own."""

    kind: Literal["holds_its_own"] = "holds_its_own"

    def watchable(self, width: int) -> Watchables:
        return {"state": value("BW", "the sum", ahead=True, W=self.features)}

    class Module(FadingModule):
        def forward(self, x: Tensor, context: Context, state: FadingState | None = None) -> Tensor:
            y = super().forward(x, context, state)
            context.see("state", y.new_zeros(len(y), self.value.out_features) if state is None else state.sums.clone())
            return y
