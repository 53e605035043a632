"""A watched forward pass: the tensors that autograd saves, their module and operation, and the inputs of every layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.costs.saved.adapters import add_adapters
from anyformer.costs.saved.dividing import Dividing
from anyformer.costs.saved.live_bytes import LiveBytes, LiveTensors
from anyformer.costs.saved.nodes import OF_A_WEIGHT, saved_by, tensors, word
from anyformer.costs.saved.paper import Paper, PaperTensor, address, put_on_paper
from anyformer.costs.saved.question import TraceQuestion
from anyformer.costs.saved.record import RESIDUAL, Reason, SavedTensor
from anyformer.costs.saved.reduced import Reduced
from anyformer.model.transformer import Transformer
from anyformer.parts.call.context import Context
from anyformer.parts.layers.recompute import PRODUCTS

COPY = torch.ops.aten._to_copy.default


@dataclass(eq=False)
class _Note:
    """A tensor that autograd saved, an output of a product or an input of a layer; `operation` is empty until it is known."""

    tensor: Tensor
    number: int
    layer: str
    path: str
    operation: str = ""
    step: int = 0

    @property
    def meta(self) -> Tensor:
        return self.tensor.meta if isinstance(self.tensor, PaperTensor) else self.tensor

    @property
    def at(self) -> int:
        return address(self.meta)


class Watched(Paper):  # type: ignore[no-untyped-call]
    """A pass on paper that notes the tensors that it saves."""

    def __init__(self, question: TraceQuestion, small: Reduced, model: Transformer) -> None:
        super().__init__()
        self.question, self.small, self.model = question, small, model
        self.layer = self.path = ""
        self._notes, self._inputs, self._products, self._unpacked = (list[_Note]() for _ in range(4))
        self._weights: dict[int, str] = {}
        self._original: dict[str, str] = {}
        self._copies: set[int] = set()
        self._dividing = Dividing({})
        self._logits: set[int] = set()
        self._count = 0
        self._unread: set[int] = set()
        self._alive = LiveTensors()
        self._stacks: list[str] = []
        self._flow: list[tuple[list[Tensor], list[Tensor]]] = []

    def put_on_paper(self) -> None:
        """Put parameters and adapters on paper, and register hooks that follow the modules."""
        model, learning = self.model, self.question.learning
        in_blocks = (
            (f"{path}.{own}", f"{original}.{own}")
            for path, original, block in self._blocks()
            for own, _ in block.named_parameters()
        )
        self._original = original = {path: path for path, _ in model.named_parameters()} | dict(in_blocks)
        parameters = put_on_paper(model, lambda path: self.question.learns(original[path]))
        self._weights = {address(x.meta): path for path, x in parameters.items()}  # type: ignore[attr-defined]
        roles = {at: model.declared[path].role for at, path in self._weights.items()}
        if learning is not None:
            paths = [path for path, name in original.items() if name in learning.ranks]
            self._weights |= {address(x.meta): "" for x in add_adapters(model, paths, learning.beside)}  # type: ignore[attr-defined]
        self._dividing = Dividing(roles)
        blocks = {path: block for path, _, block in self._blocks()}
        inside = {f"{path}.{inner}": inner for path, block in blocks.items() for inner, _ in block.named_modules() if inner}
        for name, module in model.named_modules():
            if name and name not in blocks:
                self._follow(name, module, inside.get(name, ""))
        for stack in self.small.layers:
            self._follow_layers(stack)

    def seen(self, operator: Any, read: list[Tensor], made: list[Tensor]) -> None:
        # The input of the first layer is whole on every rank, however its features were computed.
        inside = bool(self.layer) or self.path.startswith(("head", "loss"))
        self._dividing.see(operator, read, made, divides=inside)
        # Addresses are those of one storage each only while all storages live.
        self._flow.append((read, made))
        if operator in PRODUCTS:
            self._products += [self._note(x, operator.name()) for x in made]
        elif operator is COPY and read[0].dim() > 1 and address(read[0]) in self._weights:
            self._copies.update(map(address, made))

    def begin(self) -> None:
        """Note from now on which tensors are alive at once."""
        self._alive.on = True

    def begins(self, x: PaperTensor) -> None:
        storage, stack = x.meta.untyped_storage(), self.layer.partition(".")[0]
        before = tuple(name for name in self._stacks if name != stack)
        self._alive.begins(x, address(x.meta), storage.nbytes(), self.layer, before)

    def live(self) -> Iterator[LiveBytes]:
        """The most bytes at once in every layer, and outside of all; without copies of weights."""
        saved: dict[int, str] = {}
        for note in self._saved_notes():
            saved.setdefault(note.at, note.layer)
        return self._alive.most(saved, self._copies | set(self._weights))

    def attended(self, read: tuple[Tensor, ...], made: tuple[Tensor, ...], unread: list[Tensor]) -> None:
        """Note the inputs and outputs of an attention that is no operator of torch's, and the inputs that it did not read."""
        self._unread.update(address(x.meta) for x in unread)  # type: ignore[attr-defined]
        self._flow.append(([x.meta for x in read], [x.meta for x in made]))  # type: ignore[attr-defined]
        self._products += [self._note(x, "attention") for x in made]

    def pack(self, x: Tensor) -> _Note:
        self._notes.append(note := self._note(x))
        return note

    def release(self) -> None:
        """Let go of what was saved: the graph holds the notes and their tensors the graph, unseen by Python's collector."""
        for note in self._notes:
            del note.tensor

    def unpack(self, note: _Note) -> Tensor:
        """Note that the operation whose saved tensors are read saved this one."""
        self._unpacked.append(note)
        return note.tensor

    def _note(self, x: Tensor, operation: str = "") -> _Note:
        self._count += 1
        return _Note(x, self._count, self.layer, self.path, operation, self._count)

    @contextmanager
    def loss(self, outputs: Sequence[Tensor]) -> Iterator[None]:
        """Count tensors saved inside to the loss, and tensors saved before of the logits."""
        self.path, rows = "loss", {logits.shape for logits in outputs}
        yield
        own = [note for note in self._notes if note.path == "loss" or (not note.layer and note.meta.shape in rows)]
        self._logits = {note.at for note in own}

    @contextmanager
    def signal(self) -> Iterator[None]:
        """Count tensors saved inside to the loss, but for those that the model's own modules save before its outputs."""
        rows: set[torch.Size] = set()
        if isinstance(head := self.model.head, nn.Module):
            head.register_forward_hook(lambda module, given, made: rows.add(made.shape))
        self._follow("", self.model, "")
        self.path = "loss"
        yield
        own = [note for note in self._notes if note.path == "loss" or (not note.layer and note.meta.shape in rows)]
        self._logits = {note.at for note in own}

    def walk(self, output: Tensor) -> None:
        """Read the saved tensors of every operation of the graph: those of operations outside of it are freed."""
        self._alive.on = False
        todo, known = [output.grad_fn], set[Any]()
        while todo:
            node = todo.pop()
            if node is not None and node not in known:
                known.add(node)
                self._read_saved(node)
                todo += [before for before, _ in node.next_functions]
        if not self._unread:
            return
        needless = self._before(self._unread) - self._before({address(output.meta)})  # type: ignore[attr-defined]
        self._products = [note for note in self._products if note.at not in needless]

    def _read_saved(self, node: Any) -> None:
        self._unpacked = []
        for name in saved_by(node.__class__):
            getattr(node, name)
        if not self._unpacked:
            return
        operation, step = word(node.name()), min(note.number for note in self._unpacked)
        weights = [path for path in map(self._weight, node.next_functions) if path]
        for note in self._unpacked:
            note.operation, note.step = operation, step
            note.path = next((path for path in weights if path.startswith(f"{note.path}.")), note.path)

    def _weight(self, before: tuple[Any, int]) -> str:
        """The path of the weight that an operation reads, itself or a copy; for a linear map's weight or bias, the map's."""
        node = before[0]
        while node is not None and node.name() in OF_A_WEIGHT:
            node = node.next_functions[0][0]
        weight = getattr(node, "variable", None)
        if weight is None:
            return ""
        path = self._weights[address(weight.meta)]
        return self._original.get(path, path).removesuffix(".weight").removesuffix(".bias")

    def saved(self) -> Iterator[SavedTensor]:
        """Every tensor where it was saved first, in order."""
        first: dict[int, _Note] = {}
        for note in self._saved_notes():
            first.setdefault(note.at, note)
        return (self._tensor(note, self._reason(note, "saved", "copy")) for note in first.values())

    def recomputed(self) -> Iterator[SavedTensor]:
        """Every tensor that stays while layers are recomputed, and the tensors that a layer saves then."""
        # A layer through which no gradient goes is not recomputed, and nothing of it stays.
        with_gradient = {note.layer for note in self._saved_notes()}
        outside = [(note, self._reason(note, "saved", "copy")) for note in self._saved_notes() if not note.layer]
        stays: dict[int, tuple[_Note, Reason]] = {}
        inputs: set[tuple[str, int]] = set()
        for note in self._inputs:
            inputs.add((note.layer, note.at))
            if note.at not in self._weights and note.layer in with_gradient:
                outside.append((note, "input"))
        for note, reason in sorted(outside, key=lambda pair: pair[0].number):
            stays.setdefault(note.at, (note, reason))
        products: set[tuple[str, int]] = set()
        for note in self._products:
            products.add((note.layer, note.at))
            if note.layer and note.layer in with_gradient and note.at not in stays:
                stays[note.at] = note, "product"
        recomputed: dict[tuple[str, int], tuple[_Note, Reason]] = {}
        for note in self._saved_notes():
            key = note.layer, note.at
            if note.layer and key not in inputs:
                reason = "recomputed product" if key in products else self._reason(note, "recomputed", "recomputed copy")
                recomputed.setdefault(key, (note, reason))
        for note, reason in sorted((*stays.values(), *recomputed.values()), key=lambda pair: pair[0].number):
            yield self._tensor(note, reason)

    def _before(self, made: set[int]) -> set[int]:
        """Addresses of all storages from which those at given addresses are computed, these included."""
        flows = set(made)
        for read, outputs in reversed(self._flow):
            if flows and not flows.isdisjoint(map(address, outputs)):
                flows.update(map(address, (*read, *outputs)))
        return flows

    def _saved_notes(self) -> Iterator[_Note]:
        """Notes of tensors that operations saved, in order, without weights."""
        return (note for note in self._notes if note.operation and note.at not in self._weights)

    def _reason(self, note: _Note, saved: Reason, copy: Reason) -> Reason:
        return copy if note.at in self._copies else saved

    def _tensor(self, note: _Note, reason: Reason) -> SavedTensor:
        size, divided = note.meta.untyped_storage().nbytes(), note.at in self._dividing
        return SavedTensor(note.layer, note.path, note.operation, note.step, size, reason, divided, note.at in self._logits)

    def _blocks(self) -> Iterator[tuple[str, str, nn.Module]]:
        """Every layer: its path in the traced model, and its path in the whole architecture."""
        for stack, numbers in self.small.layers.items():
            blocks = self.model.get_submodule(stack).layers
            for i, (number, block) in enumerate(zip(numbers, blocks, strict=True)):  # type: ignore[arg-type]
                yield f"{stack}.layers.{i}", f"{stack}.layers.{number}", block

    def _follow(self, name: str, module: nn.Module, inner: str) -> None:
        """Set the path while a module computes; `inner`: its path within a layer, as several layers may share the module."""
        outer: list[str] = []

        def enter(*_: object) -> None:
            outer.append(self.path)
            self.path = f"{self.layer}.{inner}" if inner else name

        def leave(*_: object) -> None:
            self.path = outer.pop()

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)

    def _follow_layers(self, name: str) -> None:
        """Set the layer of a module that computes; one that is recomputed has a call of its own, as in `recompute`."""
        stack = self.model.get_submodule(name)
        numbers = iter(self.small.layers[name])
        places = iter(range(len(stack.layers)))  # type: ignore[arg-type]
        calls: list[tuple[str, Context, Context]] = []

        def enter(block: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            x, call, *rest = inputs
            self.layer, own = f"{name}.layers.{next(numbers)}", call
            if name not in self._stacks:
                self._stacks.append(name)
            outer, self.path = self.path, f"{self.layer}.{RESIDUAL}"
            if self.question.recomputed:
                own = call.isolated(stack.reads[next(places)])  # type: ignore[index]
                self._inputs += [self._note(y, "input") for y in tensors((x, own))]
            calls.append((outer, call, own))
            return (x, own, *rest)

        def leave(*_: object) -> None:
            self.path, call, own = calls.pop()
            self.layer = ""
            call.shared.update(own.shared)

        for block in dict.fromkeys(stack.layers):  # type: ignore[arg-type]
            block.register_forward_pre_hook(enter)
            block.register_forward_hook(leave)
