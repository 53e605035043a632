"""The model as a graph: every sublayer, or attention head, reads the sum of what those before it add to the stream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.places import StreamWriter, entrance, layer_path, writers
from anyformer.inspecting.sweep import kept_values
from anyformer.model.transformer import Transformer

INPUT, OUTPUT = "input", "output"
"""What enters the first layer, and what the final norm and the head read."""
CLOSE = 1e-3
"""How far a sum of parts may be from the stream, as a share of its largest value."""


@dataclass(frozen=True)
class Edge:
    """What a sender adds to the stream as a receiver reads it; `place`: of the receiver in the order of computation."""

    sender: str
    receiver: str
    place: int


@dataclass(frozen=True)
class GraphNode:
    """A sublayer, or a head of it, and the place of its step in the order of computation."""

    name: str
    writer: StreamWriter
    head: int | None
    place: int


def nodes_of(model: Transformer, *, by_head: bool) -> tuple[GraphNode, ...]:
    """The sublayers of the stack that the head reads, or their heads, in the order of computation."""
    found, steps = [], dict[tuple[int, int], int]()
    for writer in writers(model):
        place = steps.setdefault((writer.layer, writer.number), len(steps))
        heads = range(writer.heads) if by_head and writer.heads else (None,)
        found += [GraphNode(writer.path if head is None else f"{writer.path} {head}", writer, head, place) for head in heads]
    return tuple(found)


@dataclass(frozen=True, eq=False)
class EdgeRun:
    """Calls of a model on a prompt of B rows in which edges are cut.

    Heads of one attention that read different streams are computed on copies of the rows, of which each gives one head.
    `given`: what every node adds to the stream for the corrupted prompt, (B, T, D).
    """

    model: Transformer
    prompt: CallInputs
    nodes: tuple[GraphNode, ...]
    given: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: Transformer, clean: CallInputs, corrupted: CallInputs, *, by_head: bool) -> EdgeRun:
        """Those of two prompts; refused where the stream is not the sum of what the nodes add."""
        nodes = nodes_of(model, by_head=by_head)
        given = added_by(model, corrupted, nodes)
        _check_sum(model, corrupted, nodes, given)
        return cls(model, clean, nodes, given)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges: of every receiver in the order of computation, from every sender in front of it."""
        last = max(node.place for node in self.nodes) + 1
        receivers = [*((node.name, node.place) for node in self.nodes), (OUTPUT, last)]
        return tuple(
            Edge(sender, receiver, place)
            for receiver, place in receivers
            for sender in (INPUT, *(node.name for node in self.nodes if node.place < place))
        )

    def logits(self, cut: Collection[Edge]) -> Tensor:
        """The logits of the clean prompt (B, T, V) with these edges cut."""
        call = CutCall(self, {name: [e.sender for e in cut if e.receiver == name] for name in {e.receiver for e in cut}})
        with ExitStack() as stack:
            for path, function in call.patches():
                stack.enter_context(self.model.patch(path, function))
            logits = self.prompt.repeated(call.copies).logits(self.model)
        return logits[: len(self.prompt)]


class CutCall:
    """One call with edges cut: `heard_from` names the senders whose edge to a receiver is cut.

    The first B rows are the call itself; head h reads its own stream in copy h + 1 of them.
    """

    def __init__(self, run: EdgeRun, heard_from: Mapping[str, list[str]]) -> None:
        self.run, self.heard_from = run, heard_from
        self.given: dict[str, Tensor] = {}
        self.streams: dict[StreamWriter, Tensor] = {}
        self.B = len(run.prompt)
        heads = [node.head for node in run.nodes if node.head is not None and node.name in heard_from]
        self.copies = 2 + max(heads, default=-1)

    def patches(self) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
        """Functions by the paths at which they see and replace values."""
        model, of_writer = self.run.model, dict[StreamWriter, list[GraphNode]]()
        for node in self.run.nodes:
            of_writer.setdefault(node.writer, []).append(node)
        yield entrance(model), partial(self._sent, INPUT)
        for writer, nodes in of_writer.items():
            yield f"{writer.path}.before", partial(self._before, writer)
            if any(node.name in self.heard_from for node in nodes):
                yield f"{writer.path}.input", partial(self._input, writer, nodes)
            if nodes[0].head is not None:
                yield writer.by_head, partial(self._heads, nodes)
                yield f"{writer.path}.head_outputs", partial(self._sent_by_head, nodes)
            else:
                yield writer.output, partial(self._sent, nodes[0].name)
        if OUTPUT in self.heard_from:
            last = model.architecture.output_stack.depth - 1
            yield f"{layer_path(model, last)}.output", partial(self._left, OUTPUT)

    def _copy(self, head: int) -> slice:
        return slice((head + 1) * self.B, (head + 2) * self.B)

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

    def _input(self, writer: StreamWriter, nodes: list[GraphNode], value: Tensor) -> Tensor:
        """What the sublayer reads: row by row of the copies, what each head of it reads."""
        result = value.clone()
        for node in nodes:
            if node.name in self.heard_from:
                rows = slice(None) if node.head is None else self._copy(node.head)
                read_BTD = normed(self.run.model, writer, self._left(node.name, self.streams[writer]))
                result[rows] = read_BTD if node.head is not None else torch.cat([read_BTD] * self.copies)
        return result

    def _heads(self, nodes: list[GraphNode], value_BTHU: Tensor) -> Tensor:
        """Every head from its own copy of the rows, in all copies."""
        heads = [value_BTHU[: self.B, :, head] for head in range(value_BTHU.shape[2])]
        for node in nodes:
            if node.head is not None and node.name in self.heard_from:
                heads[node.head] = value_BTHU[self._copy(node.head), :, node.head]
        return torch.cat([torch.stack(heads, 2)] * self.copies)

    def _left(self, receiver: str, stream: Tensor) -> Tensor:
        """The stream as a receiver reads it: what cut senders give is that of the corrupted prompt."""
        changes = [self.run.given[sender] - self.given[sender] for sender in self.heard_from[receiver]]
        change_BTD = torch.stack(changes).sum(0)
        return stream + torch.cat([change_BTD] * (len(stream) // self.B))


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
    last = f"{layer_path(model, stack.depth - 1)}.output"
    value = kept_values(model, prompt, (last,))[0][last]
    if value.dim() == 3 and stack.condition is None and not late:
        rest_BTD = value - torch.stack(list(given.values())).sum(0)
        if float((rest_BTD - rest_BTD[:1, :1]).abs().max()) <= CLOSE * float(value.abs().max()):
            return
    by_head = any(node.head is not None for node in nodes)
    raise InputError(
        "an edge can be cut where every sublayer reads the sum of what those before it add to one stream, and in this model "
        f"that is not so: patch whole values with `activation_patching`{', or ask with by_head = False' if by_head else ''}"
    )
