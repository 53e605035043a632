"""The module of stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from anyformer.describe import InputError
from anyformer.parts.attention.relative import RELATIVE
from anyformer.parts.attention.score_bias import SCORE_BIAS
from anyformer.parts.call.choices import ChoiceKey, ChoiceLayout, ChoosesExperts
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Dropout
from anyformer.parts.call.opened import OpenedPart, check_whole, normed
from anyformer.parts.call.shared import EMBEDDED, STREAM, TRUNK, behind
from anyformer.parts.call.state import State
from anyformer.parts.embedding.condition import CONDITION
from anyformer.parts.embedding.layer_inputs import LAYER_INPUTS
from anyformer.parts.layers.modulation_module import applied
from anyformer.parts.layers.recompute import recomputed
from anyformer.parts.layers.spread import Relay, Spread
from anyformer.parts.layers.stack import Stack
from anyformer.plan import Plan


class StackModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, stack: Stack, width: int, embedding_width: int, plan: Plan, name: str) -> None:
        super().__init__()
        before, projection = stack.width_before(width, embedding_width), stack.input_projection
        self.position = stack.position.build(before) if stack.position else None
        self.input_norm = stack.input_norm.build(before) if stack.input_norm else nn.Identity()
        self.dropout = Dropout(stack.dropout, f"{name}.dropout")
        self.input_projection = nn.Linear(embedding_width, width, bias=projection.bias) if projection else nn.Identity()
        self.norms_first = stack.input_norm_at == "before_position"
        self.projects_first = projection is not None and projection.place == "first"
        blocks: list[nn.Module] = []
        for i, (variant, owner) in enumerate(zip(stack.layers, stack.owners, strict=True)):
            block = stack.variants[variant].of_layer(i, stack.depth)
            built = block.build(width, plan, f"{name}.layers.{i}", stack.streams, i) if owner == i else blocks[owner]
            blocks.append(built)
        self.layers = nn.ModuleList(blocks)
        self.owners = stack.owners
        self.streams = stack.streams.build_ends(width) if stack.streams else None
        self.aside = tuple(stack.variants[variant].output == "aside" for variant in stack.layers)
        self.final_norm = stack.final_norm.build(width) if stack.final_norm else nn.Identity()
        self.final_modulation = stack.final_modulation.build(width) if stack.final_modulation else None
        self.condition = stack.condition.build(width) if stack.condition else None
        self.score_bias = stack.score_bias.build() if stack.score_bias else None
        self.relative = stack.relative.build(width) if stack.relative else None
        self.layer_inputs = stack.layer_inputs.build(width, stack.depth) if stack.layer_inputs else None
        self.checkpointing = plan.checkpointing
        self.reads = tuple(stack.variants[variant].reads for variant in stack.layers)
        sources = {read.variant for read in stack.reads}
        self.leaving = tuple(variant if variant in sources else None for variant in stack.layers)
        """The variant of each layer if other layers read values of that variant, else None."""
        self.read_behind = {read.variant for read in stack.reads if read.name == STREAM}
        """The variants whose streams other layers read; None among them: what enters the layers."""
        self.kinds = tuple(dict.fromkeys(self.leaving))
        self.choosing = ChoiceLayout.of(dict(self._choosing()))
        """The experts that the layers choose for a token."""
        self.spread: Spread | None = None
        self.relay: Relay | None = None

    def forward(self, x_BTD: Tensor, context: Context, states: list[dict[str, State]] | None = None) -> Tensor:
        if self.projects_first:
            x_BTD = self.input_projection(x_BTD)
        if self.norms_first:
            x_BTD = context.normed(self.input_norm, x_BTD, "input_norm")
        if self.position is not None:
            x_BTD = x_BTD + context.see("position.output", self.position(context.positions, x_BTD).to(x_BTD.dtype))
        x_BTD = self.dropout(x_BTD if self.norms_first else context.normed(self.input_norm, x_BTD, "input_norm"), context.noise)
        if not self.projects_first:
            x_BTD = self.input_projection(x_BTD)
        if self.score_bias is not None:
            context.leave(SCORE_BIAS, self.score_bias)
        if self.relative is not None:
            context.leave(RELATIVE, self.relative())
        if self.layer_inputs is not None:
            context.leave(LAYER_INPUTS, self.layer_inputs(x_BTD, context.tokens))
        condition_BD = None
        if self.condition is not None:
            condition_BD = self.condition(len(x_BTD), context.times, context.classes)
            context.leave(CONDITION, condition_BD)
        if None in self.read_behind:
            context.leave(STREAM, x_BTD)
        if self.streams is not None:
            x_BTD = self.streams.entering(x_BTD)
        length, spread = x_BTD.shape[1], self.spread
        if spread is not None:
            x_BTD, context = spread.enter(x_BTD, context)
        # A layer leaves values for later layers under the name of its variant.
        contexts = {variant: replace(context, variant=variant) if variant else context for variant in self.kinds}
        recomputes = self.checkpointing != "none" and states is None and torch.is_grad_enabled()
        first = 0
        if context.opened is not None:
            first, x_BTD = self._opened(context.opened, x_BTD, recomputes=recomputes)

        def run(layers: range, x_BTD: Tensor) -> Tensor:
            for i in layers:
                if i < first:
                    continue
                x_BTD = context.see(f"layer[{i}].input", x_BTD)
                if i == len(self.layers) - 1 and (None, EMBEDDED) in context.shared:
                    context.leave(TRUNK, x_BTD if spread is None else spread.leave(x_BTD, length))
                block, inner = self.layers[i], self._of_layer(i, contexts[self.leaving[i]])
                if recomputes:
                    y_BTD = recomputed(self.checkpointing, block, x_BTD, inner, self.reads[i])
                else:
                    y_BTD = block(x_BTD, inner, states[i] if states else None)
                y_BTD = context.see(f"layer[{i}].output", y_BTD)
                if (variant := self.leaving[i]) in self.read_behind and variant is not None:
                    contexts[variant].leave(STREAM, y_BTD if spread is None else spread.leave(y_BTD, length))
                x_BTD = x_BTD if self.aside[i] else y_BTD
                if i < len(context.added):
                    x_BTD = x_BTD + context.added[i].to(x_BTD.dtype)
                if i in context.tapped:
                    context.leave(behind(i), x_BTD)
            return x_BTD

        x_BTD = run(range(len(self.layers)), x_BTD) if self.relay is None else self.relay(run, x_BTD, context)
        x_BTD = x_BTD if spread is None else spread.leave(x_BTD, length)
        return self.exit(x_BTD, condition_BD, context.opened)

    def exit(self, x: Tensor, condition_BD: Tensor | None, opened: OpenedPart | None = None) -> Tensor:
        """What leaves the stack, (B, T, D), of the stream, or of all streams, behind its last layer."""
        y_BTD = normed(self.final_norm, x if self.streams is None else self.streams.leaving(x), opened, "final_norm")
        y_BTD = y_BTD if self.final_modulation is None else applied(y_BTD, *self.final_modulation(condition_BD))
        return y_BTD if opened is None else opened.see("output", y_BTD)

    def _opened(self, opened: OpenedPart, x: Tensor, *, recomputes: bool) -> tuple[int, Tensor]:
        """The first layer that is computed, and the stream before it."""
        check_whole(opened, self.spread, self.relay)
        if recomputes:
            raise InputError(
                f"plan.checkpointing = {self.checkpointing!r} computes layers again in the backward pass, where no value is "
                f"watched or replaced: build the model with plan.checkpointing = 'none', or call it in torch.no_grad()"
            )
        for i in range(len(self.layers)):
            if (given := opened.asked.enters(f"{opened.path}.layer[{i}].input")) is not None:
                return i, entered(given, x, i)
        return 0, x

    def _choosing(self) -> Iterator[tuple[ChoiceKey, int]]:
        """The layers' modules that choose experts, and how many of them."""
        for number, layer in enumerate(self.layers):
            for module in layer.modules():
                if isinstance(module, ChoosesExperts):
                    yield (module.name, self._turn(number)), module.chosen

    def _turn(self, number: int) -> int:
        """Of the layers with the weights of one, how many stand before it."""
        return self.owners[:number].count(self.owners[number])

    def _of_layer(self, i: int, context: Context) -> Context:
        """The context of layer i: layers that share weights must not drop the same elements."""
        context = context.inside(f"layer[{i}]")
        if self.owners[i] == i:
            return context
        noise = None if context.noise is None else context.noise.other(i)
        return replace(context, noise=noise, turn=self._turn(i))


def entered(given: Tensor, x: Tensor, layer: int) -> Tensor:
    """The stream that a call goes on from before a layer: it has the shape of the one that would stand there."""
    if given.shape != x.shape:
        raise InputError(f"the value to resume layer {layer} from should have shape {tuple(x.shape)}, got {tuple(given.shape)}")
    return given.to(x)
