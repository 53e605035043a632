"""Graphs: a model's call as a module whose inputs and outputs are tensors with names, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from anyformer.exporting.entrance import GraphInput
from anyformer.exporting.port import BATCH, SOURCE, Port
from anyformer.model.contexts import context_of
from anyformer.model.inputs import Call, StackInput
from anyformer.model.transformer import Transformer


class Graph(nn.Module):
    """The base of graphs: `inputs` in the order of `forward`, and the names of its `outputs`."""

    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def given(self, tensors: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """The tensors of a call by name."""
        return {port.name: tensor for port, tensor in zip(self.inputs, tensors, strict=True)}

    def run(self, name: str, given: StackInput, call: Call, source: StackInput | None = None) -> Tensor:
        """The stack of this name, (B, T, D), in the order of positions in which they were given."""
        context = context_of(given, call, source, self.model.plan, None)
        states = call.state.layers if call.state else None
        y_BTD: Tensor = self.model.get_submodule(name)(given.x, context, states)
        return y_BTD

    @property
    def result(self) -> str:
        """The name of what the model gives: logits, or features without a table of them."""
        return "last_hidden_state" if self.model.architecture.head_table is None else "logits"


class WholeGraph(Graph):
    """A model that reads all of its input at once, without state: encoders, classifiers, models of images and sounds."""

    def __init__(self, model: Transformer, entrance: GraphInput) -> None:
        super().__init__(model)
        self.entrance, self.inputs = entrance, entrance.ports
        head = model.architecture.head
        pooled = head is not None and head.pool is not None and head.outputs == "features"
        self.outputs = ("pooler_output" if pooled else self.result,)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        call = self.entrance.call(self.given(tensors))
        assert call.tokens is not None, "every entrance gives an input"
        features = self.run(self.model.output, self.model.entered(call.tokens, call.padding, call), call)
        if self.model.head is not None:
            padding = self.model.architecture.embedding.padding(call.padding)
            features = self.model.head.pooled(features, padding, call.tokens)
        return (self.model.logits(features).float(),)


class SourceGraph(Graph):
    """The encoder of a model with two inputs: `last_hidden_state` (B, S, D)."""

    def __init__(self, model: Transformer, entrance: GraphInput) -> None:
        super().__init__(model)
        self.entrance = entrance
        self.inputs = tuple(replace(port, shape=tuple(_source(size) for size in port.shape)) for port in entrance.ports)
        self.outputs = ("last_hidden_state",)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        call = self.entrance.call(self.given(tensors))
        assert call.tokens is not None, "every entrance gives an input"
        return (self.run("encoder", self.model.entered(call.tokens, call.padding, call), call.of_source()),)


def _source(size: int | str) -> int | str:
    """The name of an axis of the source, apart from those of the target."""
    return size if isinstance(size, int) or size == BATCH else SOURCE
