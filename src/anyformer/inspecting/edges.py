"""The calls of a model in which edges of its graph are cut: receivers that read streams of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.graph import INPUT, OUTPUT, Edge, GraphNode, made_of_sides, nodes_of
from anyformer.inspecting.places import StreamWriter, entrance, layer_path
from anyformer.inspecting.sweep import kept_values
from anyformer.model.transformer import Transformer

CLOSE = 1e-3
"""How far a sum of parts may be from the stream, as a share of its largest value."""


class InputCut(NamedTuple):
    """An input of a node that reads a stream of its own, in the copy of the rows that `copy` numbers, from 1."""

    node: GraphNode
    into: str
    copy: int


@dataclass(frozen=True, eq=False)
class EdgeRun:
    """Calls of a model on a prompt of B rows in which edges are cut.

    Inputs of one attention's heads that read different streams are computed on copies of the rows, of which each gives one.
    `given`: what every node adds to the stream for the corrupted prompt, (B, T, D). `by_head`, `by_input`: which nodes it has.
    """

    model: Transformer
    prompt: CallInputs
    nodes: tuple[GraphNode, ...]
    given: Mapping[str, Tensor]
    by_head: bool
    by_input: bool

    @classmethod
    def of(
        cls, model: Transformer, clean: CallInputs, corrupted: CallInputs, *, by_head: bool, by_input: bool = True
    ) -> EdgeRun:
        """Those of two prompts; refused where the stream is not the sum of what the nodes add."""
        with torch.no_grad():
            return cls._of(model, clean, corrupted, by_head=by_head, by_input=by_input)

    @classmethod
    def _of(cls, model: Transformer, clean: CallInputs, corrupted: CallInputs, *, by_head: bool, by_input: bool) -> EdgeRun:
        split = made_of_sides(model, clean, corrupted) if by_head and by_input else ()
        nodes = nodes_of(model, by_head=by_head, split=split)
        given = added_by(model, corrupted, nodes)
        _check_sum(model, corrupted, nodes, given)
        return cls(model, clean, nodes, given, by_head, by_input)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges: of every receiver in the order of computation, from every sender in front of it."""
        last = max(node.place for node in self.nodes) + 1
        receivers = [(node.name, node.place, into) for node in self.nodes for into in node.inputs]
        return tuple(
            Edge(sender, receiver, place, into)
            for receiver, place, into in (*receivers, (OUTPUT, last, ""))
            for sender in (INPUT, *(node.name for node in self.nodes if node.place < place))
        )

    def logits(self, cut: Collection[Edge]) -> Tensor:
        """The logits of the clean prompt (B, T, V) with these edges cut."""
        heard_from: dict[tuple[str, str], list[str]] = {}
        for edge in cut:
            heard_from.setdefault((edge.receiver, edge.into), []).append(edge.sender)
        return CutCall(self, heard_from).logits()


class CutCall:
    """One call with edges cut: `heard_from` names the senders whose edge to an input of a receiver is cut.

    The first B rows are the call itself. Every input of a head that reads a stream of its own has a copy of them, and the first
    of these copies gives the head, of queries, keys and values that stand in their own ones.
    """

    def __init__(self, run: EdgeRun, heard_from: Mapping[tuple[str, str], list[str]]) -> None:
        self.run, self.heard_from = run, heard_from
        self.given: dict[str, Tensor] = {}
        self.streams: dict[StreamWriter, Tensor] = {}
        self.B = len(run.prompt)
        self.cuts: dict[StreamWriter, list[InputCut]] = {}
        for node in run.nodes:
            for into in node.inputs:
                if (node.name, into) in heard_from:
                    before = self.cuts.setdefault(node.writer, [])
                    before.append(InputCut(node, into, len(before) + 1))
        apart = [cut.copy for cuts in self.cuts.values() for cut in cuts if cut.node.head is not None]
        self.copies = 1 + max(apart, default=0)

    def logits(self) -> Tensor:
        """What the model says with these edges cut, (B, T, V)."""
        with ExitStack() as stack:
            for path, function in self.patches():
                stack.enter_context(self.run.model.patch(path, function))
            return self.run.prompt.repeated(self.copies).logits(self.run.model)[: self.B]

    def patches(self) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
        """Functions by the paths at which they see and replace values."""
        model, of_writer = self.run.model, dict[StreamWriter, list[GraphNode]]()
        for node in self.run.nodes:
            of_writer.setdefault(node.writer, []).append(node)
        yield entrance(model), partial(self._sent, INPUT)
        for writer, nodes in of_writer.items():
            cuts = self.cuts.get(writer, [])
            if nodes[0].inputs:
                yield f"{writer.path}.before", partial(self._before, writer)
            if cuts:
                yield f"{writer.path}.input", partial(self._input, writer, cuts)
                for side in filter(None, nodes[0].inputs):
                    yield f"{writer.path}.{side}", partial(self._side, cuts, side)
            if nodes[0].head is not None:
                yield writer.by_head, partial(self._heads, cuts)
                yield f"{writer.path}.head_outputs", partial(self._sent_by_head, nodes)
            else:
                yield writer.output, partial(self._sent, nodes[0].name)
        if (OUTPUT, "") in self.heard_from:
            last = model.architecture.output_stack.depth - 1
            yield f"{layer_path(model, last)}.output", partial(self._left, (OUTPUT, ""))

    def _copy(self, number: int) -> slice:
        return slice(number * self.B, (number + 1) * self.B)

    def _sent(self, name: str, value: Tensor) -> Tensor:
        self.given[name] = value[: self.B]
        return value

    def _sent_by_head(self, nodes: list[GraphNode], value_BTHD: Tensor) -> Tensor:
        for node in nodes:
            assert node.head is not None, "asked of an attention by head"
            self.given[node.name] = value_BTHD[: self.B, :, node.head] * _multiplier(self.run.model, node.writer)
        return value_BTHD

    def _before(self, writer: StreamWriter, value: Tensor) -> Tensor:
        self.streams[writer] = value[: self.B]
        return value

    def _input(self, writer: StreamWriter, cuts: list[InputCut], value: Tensor) -> Tensor:
        """What the sublayer reads: in every copy, what one input reads."""
        result = value.clone()
        for cut in cuts:
            read_BTD = normed(self.run.model, writer, self._left((cut.node.name, cut.into), self.streams[writer]))
            if cut.node.head is None:
                return torch.cat([read_BTD] * self.copies)
            result[self._copy(cut.copy)] = read_BTD
        return result

    def _side(self, cuts: list[InputCut], side: str, value: Tensor) -> Tensor:
        """Queries, keys or values: in the copy that gives a head those of the stream that its input reads."""
        result = value.clone()
        for head, copy in _giving(cuts).items():
            own = next((cut.copy for cut in cuts if (cut.node.head, cut.into) == (head, side)), 0)
            result[self._copy(copy)] = value[self._copy(own)]
        return result

    def _heads(self, cuts: list[InputCut], value_BTHU: Tensor) -> Tensor:
        """Every head from the copy of the rows that gives it, in all copies."""
        heads = [value_BTHU[: self.B, :, head] for head in range(value_BTHU.shape[2])]
        for head, copy in _giving(cuts).items():
            heads[head] = value_BTHU[self._copy(copy), :, head]
        return torch.cat([torch.stack(heads, 2)] * self.copies)

    def _left(self, receiver: tuple[str, str], stream: Tensor) -> Tensor:
        """The stream as an input of a receiver reads it: what cut senders give is that of the corrupted prompt."""
        changes = [self.run.given[sender] - self.given[sender] for sender in self.heard_from[receiver]]
        change_BTD = torch.stack(changes).sum(0)
        return stream + torch.cat([change_BTD] * (len(stream) // self.B))


def _giving(cuts: list[InputCut]) -> dict[int, int]:
    """The copy that gives each head of which an input is cut: the first of its own."""
    found: dict[int, int] = {}
    for cut in cuts:
        assert cut.node.head is not None, "asked of an attention by head"
        found.setdefault(cut.node.head, cut.copy)
    return found


def normed(model: Transformer, writer: StreamWriter, stream_BTD: Tensor) -> Tensor:
    """A stream before a step as a sublayer of it reads it."""
    block = model.get_submodule(f"{model.output}.layers.{writer.layer}")
    y_BTD: Tensor = block.get_submodule(f"step_{writer.number}_norm_before")(stream_BTD)
    return block.get_submodule(f"{writer.branch}.norm_before")(y_BTD)  # type: ignore[no-any-return]


def added_by(model: Transformer, prompt: CallInputs, nodes: tuple[GraphNode, ...]) -> Mapping[str, Tensor]:
    """What every node adds to the stream in a call, (B, T, D), and under `INPUT` what enters the layers."""
    paths = {node.name: node.writer.output if node.head is None else f"{node.writer.path}.head_outputs" for node in nodes}
    values, _ = kept_values(model, prompt, [entrance(model), *dict.fromkeys(paths.values())])
    found = {INPUT: values[entrance(model)]}
    for node in nodes:
        value = values[paths[node.name]]
        found[node.name] = value if node.head is None else value[:, :, node.head] * _multiplier(model, node.writer)
    return found


def _multiplier(model: Transformer, writer: StreamWriter) -> float:
    stack = model.architecture.output_stack
    return stack.variants[stack.layers[writer.layer]].branches[writer.branch].multiplier


def _check_sum(model: Transformer, prompt: CallInputs, nodes: tuple[GraphNode, ...], given: Mapping[str, Tensor]) -> None:
    """Refuse a model whose stream is not the sum of what its nodes add, but for biases of attention outputs."""
    stack = model.architecture.output_stack
    late = any(branch.added is not None for block in stack.variants.values() for branch in block.branches.values())
    late |= any(read.variant is not None for block in stack.variants.values() for read in block.reads)
    last = f"{layer_path(model, stack.depth - 1)}.output"
    value = kept_values(model, prompt, (last,))[0][last]
    if value.dim() == 3 and stack.condition is None and not late:
        rest_BTD = value - torch.stack(list(given.values())).sum(0)
        if float((rest_BTD - rest_BTD[:1, :1]).abs().max()) <= CLOSE * float(value.abs().max()):
            return
    if model.training:
        raise InputError("the model is in training mode, in which dropout draws anew in every call: model.eval() first")
    by_head = any(node.head is not None for node in nodes)
    raise InputError(
        "an edge can be cut where every sublayer reads the sum of what those before it add to one stream, and in this model "
        f"that is not so: patch whole values with `activation_patching`{', or ask with by_head = False' if by_head else ''}"
    )
