"""Mixers that compute what is right and declare something else, each in one respect that no number of the output tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tests.testing.wrong.fading import FadingSum
from tests.testing.wrong.mixers import MIXERS

from anyformer.operations import Limit, Shape, StateBytes, Tally
from anyformer.plan import Plan


@MIXERS.breaks("functions_are_declared_as_work")
class FreeGate(FadingSum):
    """Declares no work for its activation."""

    kind: Literal["free_gate"] = "free_gate"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        found = super().cost(width, shape, plan)
        return replace(found, own_work={name: each for name, each in found.own_work.items() if name != "silu"})


@MIXERS.breaks("step_reads_the_state_that_it_holds")
class ReadTwice(FadingSum):
    """Declares that a step reads its sums twice."""

    kind: Literal["read_twice"] = "read_twice"

    def held(self, shape: Shape, plan: Plan) -> StateBytes:
        found = super().held(shape, plan)
        return replace(found, read=2 * found.read)


@MIXERS.breaks("weights_are_cut_as_their_roles_say")
class CutAlongInputs(FadingSum):
    """Declares that its gate is cut along its inputs; it is cut along its features."""

    kind: Literal["cut_along_inputs"] = "cut_along_inputs"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        found = super().cost(width, shape, plan)
        gate = replace(found.own_weights["gate.weight"], role="row", writes=True)
        return replace(found, own_weights={**found.own_weights, "gate.weight": gate})


@MIXERS.breaks("what_adds_up_writes_to_the_stream")
class StartsLarge(FadingSum):
    """Its output matrix starts as any other, however deep the model is."""

    kind: Literal["starts_large"] = "starts_large"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        found = super().cost(width, shape, plan)
        output = replace(found.own_weights["output.weight"], fill="matrix", writes=False)
        return replace(found, own_weights={**found.own_weights, "output.weight": output})


@MIXERS.breaks("packed_documents_equal_each_alone")
class NeedlesslyUnpacked(FadingSum):
    """Says that documents cannot be packed, and they can."""

    kind: Literal["needlessly_unpacked"] = "needlessly_unpacked"

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        return super().cost(width, shape, plan) + Tally(own_limits=(Limit("packed", "it has a state"),))
