"""A forward pass that is watched: what autograd saves of it, which module and operation saved it, and what stays of layers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.costs.saved.adapters import add_adapters
from anyformer.costs.saved.dividing import Dividing
from anyformer.costs.saved.paper import Paper, PaperTensor, address, put_on_paper
from anyformer.costs.saved.question import Question
from anyformer.costs.saved.record import RESIDUAL, Held, SavedTensor
from anyformer.costs.saved.reduced import Reduced
from anyformer.model import Transformer
from anyformer.parts.call.context import Context
from anyformer.parts.layers.recompute import PRODUCTS

COPY = torch.ops.aten._to_copy.default
_GENERATED = re.compile(r"GeneratedBackwardFor_[a-z]+_(\w+)_default\w*")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(eq=False)
class _Note:
    """A tensor that autograd saved, that a product gave or that a layer was given; `operation` is empty until it is known."""

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
    """Computes on paper and takes notes."""

    def __init__(self, question: Question, small: Reduced, model: Transformer) -> None:
        super().__init__()
        self.question, self.small, self.model = question, small, model
        self.layer = self.path = ""
        self._notes: list[_Note] = []
        self._inputs: list[_Note] = []
        self._products: list[_Note] = []
        self._weights: dict[int, str] = {}
        self._original: dict[str, str] = {}
        self._copies: set[int] = set()
        self._dividing = Dividing({})
        self._logits: set[int] = set()
        self._count = 0
        self._asked: list[_Note] = []
        self._unread: set[int] = set()
        self._flow: list[tuple[list[Tensor], list[Tensor]]] = []

    def put_on_paper(self) -> None:
        """The parameters of the model, with adapters beside them, and hooks that follow its modules."""
        model, learning = self.model, self.question.learning
        here_and_there = (
            (f"{here}.{own}", f"{there}.{own}") for here, there, block in self._blocks() for own, _ in block.named_parameters()
        )
        self._original = original = {path: path for path, _ in model.named_parameters()} | dict(here_and_there)
        parameters = put_on_paper(model, lambda path: self.question.learns(original[path]))
        self._weights = {address(x.meta): path for path, x in parameters.items()}  # type: ignore[attr-defined]
        roles = {at: model.declared[path].role for at, path in self._weights.items()}
        if learning is not None:
            beside = {path: learning.ranks[name] for path, name in original.items() if name in learning.ranks}
            self._weights |= {address(x.meta): "" for x in add_adapters(model, beside)}  # type: ignore[attr-defined]
        self._dividing = Dividing(roles)
        blocks = {path: block for path, _, block in self._blocks()}
        inside = {f"{path}.{inner}": inner for path, block in blocks.items() for inner, _ in block.named_modules() if inner}
        for name, module in model.named_modules():
            if name and name not in blocks:
                self._follow(name, module, inside.get(name, ""))
        for stack in self.small.architecture.stacks:
            self._follow_layers(stack)

    def seen(self, operator: Any, read: list[Tensor], made: list[Tensor]) -> None:
        # What is entered is whole on every rank, however its features were made.
        inside = bool(self.layer) or self.path.startswith(("head", "loss"))
        self._dividing.see(operator, read, made, divides=inside)
        # Addresses tell storages apart only while all are there.
        self._flow.append((read, made))
        if operator in PRODUCTS:
            self._products += [self._note(x, operator.name()) for x in made]
        elif operator is COPY and read[0].dim() > 1 and address(read[0]) in self._weights:
            self._copies.update(map(address, made))

    def gave(self, read: tuple[Tensor, ...], made: tuple[Tensor, ...], unread: list[Tensor]) -> None:
        """What an attention read and gave that is no operator of torch's, and what it was given and did not read."""
        self._unread.update(address(x.meta) for x in unread)  # type: ignore[attr-defined]
        self._flow.append(([x.meta for x in read], [x.meta for x in made]))  # type: ignore[attr-defined]
        self._products += [self._note(x, "attention") for x in made]

    def pack(self, x: Tensor) -> _Note:
        self._notes.append(note := self._note(x))
        return note

    def unpack(self, note: _Note) -> Tensor:
        """Whoever asks is the operation that saved it."""
        self._asked.append(note)
        return note.tensor

    def _note(self, x: Tensor, operation: str = "") -> _Note:
        self._count += 1
        return _Note(x, self._count, self.layer, self.path, operation, self._count)

    @contextmanager
    def loss(self, logits: Tensor) -> Iterator[None]:
        """What is saved inside is the loss's, and so is what was saved of the logits."""
        self.path, rows = "loss", logits.shape
        yield
        own = [note for note in self._notes if note.path == "loss" or (not note.layer and note.meta.shape == rows)]
        self._logits = {note.at for note in own}

    def walk(self, output: Tensor) -> None:
        """Ask every operation of the graph for what it saved: what is saved outside of it is dropped with its graph."""
        todo, known = [output.grad_fn], set[Any]()
        while todo:
            node = todo.pop()
            if node is not None and node not in known:
                known.add(node)
                self._ask(node)
                todo += [before for before, _ in node.next_functions]
        if not self._unread:
            return
        needless = self._before(self._unread) - self._before({address(output.meta)})  # type: ignore[attr-defined]
        self._products = [note for note in self._products if note.at not in needless]

    def _ask(self, node: Any) -> None:
        self._asked = []
        for name in _saved_by(node.__class__):
            getattr(node, name)
        if not self._asked:
            return
        operation, step = _word(node.name()), min(note.number for note in self._asked)
        weights = [path for path in map(self._weight, node.next_functions) if path]
        for note in self._asked:
            note.operation, note.step = operation, step
            note.path = next((path for path in weights if path.startswith(f"{note.path}.")), note.path)

    def _weight(self, before: tuple[Any, int]) -> str:
        """The path of the weight that an operation reads, or a copy of it; of a linear map's weight and bias, the map's."""
        node = before[0]
        while node is not None and node.name() in _OF_A_WEIGHT:
            node = node.next_functions[0][0]
        weight = getattr(node, "variable", None)
        if weight is None:
            return ""
        path = self._weights[address(weight.meta)]
        return self._original.get(path, path).removesuffix(".weight").removesuffix(".bias")

    def saved(self) -> Iterator[SavedTensor]:
        """Every tensor where it was saved first, in order."""
        known = set[int]()
        for note in self._kept():
            if note.at not in known:
                known.add(note.at)
                yield self._tensor(note, "copy" if note.at in self._copies else "saved")

    def recomputed(self) -> Iterator[SavedTensor]:
        """Every tensor that stays while layers are computed again, and what each layer saves then."""
        # A layer through which no gradient goes is not computed again, and nothing of it stays.
        again_at = {note.layer for note in self._kept()}
        outside = [(note, self._held(note, "saved", "copy")) for note in self._kept() if not note.layer]
        held: dict[int, tuple[_Note, Held]] = {}
        given: set[tuple[str, int]] = set()
        for note in self._inputs:
            given.add((note.layer, note.at))
            if note.at not in self._weights and note.layer in again_at:
                outside.append((note, "input"))
        for note, why in sorted(outside, key=lambda pair: pair[0].number):
            held.setdefault(note.at, (note, why))
        made: set[tuple[str, int]] = set()
        for note in self._products:
            made.add((note.layer, note.at))
            if note.layer and note.layer in again_at and note.at not in held:
                held[note.at] = note, "product"
        again: dict[tuple[str, int], tuple[_Note, Held]] = {}
        for note in self._kept():
            key = note.layer, note.at
            if note.layer and key not in given:
                why = "product again" if key in made else self._held(note, "saved again", "copy again")
                again.setdefault(key, (note, why))
        for note, why in sorted((*held.values(), *again.values()), key=lambda pair: pair[0].number):
            yield self._tensor(note, why)

    def _before(self, made: set[int]) -> set[int]:
        """Addresses of all that flows into what is at these."""
        found = set(made)
        for read, given in reversed(self._flow):
            if found and not found.isdisjoint(map(address, given)):
                found.update(map(address, (*read, *given)))
        return found

    def _kept(self) -> Iterator[_Note]:
        """What operations saved, but for weights, in order."""
        return (note for note in self._notes if note.operation and note.at not in self._weights)

    def _held(self, note: _Note, saved: Held, copy: Held) -> Held:
        return copy if note.at in self._copies else saved

    def _tensor(self, note: _Note, held: Held) -> SavedTensor:
        size, divided = note.meta.untyped_storage().nbytes(), note.at in self._dividing
        return SavedTensor(note.layer, note.path, note.operation, note.step, size, held, divided, note.at in self._logits)

    def _blocks(self) -> Iterator[tuple[str, str, nn.Module]]:
        """Every layer: its path here, and with the number that it has in the whole architecture."""
        for stack, numbers in self.small.layers.items():
            blocks = self.model.get_submodule(stack).layers
            for i, (number, block) in enumerate(zip(numbers, blocks, strict=True)):  # type: ignore[arg-type]
                yield f"{stack}.layers.{i}", f"{stack}.layers.{number}", block

    def _follow(self, name: str, module: nn.Module, inner: str) -> None:
        """Know while a module computes; `inner`: its path in a layer, as one that several share is in whichever computes."""
        before: list[str] = []

        def enter(*_: object) -> None:
            before.append(self.path)
            self.path = f"{self.layer}.{inner}" if inner else name

        def leave(*_: object) -> None:
            self.path = before.pop()

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)

    def _follow_layers(self, name: str) -> None:
        """Know which layer of a stack computes; one that is computed again has a call of its own, as in `recomputed`."""
        stack = self.model.get_submodule(name)
        numbers = iter(self.small.layers[name])
        places = iter(range(len(stack.layers)))  # type: ignore[arg-type]
        calls: list[tuple[str, Context, Context]] = []

        def enter(block: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            x, call, *rest = given
            self.layer, own = f"{name}.layers.{next(numbers)}", call
            before, self.path = self.path, f"{self.layer}.{RESIDUAL}"
            if self.question.recomputed:
                own = call.isolated(stack.reads[next(places)])  # type: ignore[index]
                self._inputs += [self._note(y, "input") for y in _tensors((x, own))]
            calls.append((before, call, own))
            return (x, own, *rest)

        def leave(*_: object) -> None:
            self.path, call, own = calls.pop()
            self.layer = ""
            call.shared.update(own.shared)

        for block in dict.fromkeys(stack.layers):  # type: ignore[arg-type]
            block.register_forward_pre_hook(enter)
            block.register_forward_hook(leave)


def _tensors(given: Any) -> Iterator[Tensor]:
    """All that a call of a layer holds."""
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, dict | tuple | list):
        for each in given.values() if isinstance(given, dict) else given:
            yield from _tensors(each)
    elif is_dataclass(given):
        yield from _tensors([getattr(given, field.name) for field in fields(given)])


_OF_A_WEIGHT = {"ToCopyBackward0", "TBackward0", "TransposeBackward0", "ExpandBackward0", "ViewBackward0", "UnsqueezeBackward0"}
"""What stands between a weight and the operation that reads it."""


@cache
def _saved_by(kind: Any) -> tuple[str, ...]:
    """The attributes of an autograd operation that give what it saved."""
    return tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")


def _word(name: str) -> str:
    """`MulBackward0` -> `mul`."""
    if generated := _GENERATED.match(name):
        return generated[1]
    return _CAPITAL.sub("_", name.removesuffix("0").removesuffix("Backward").removeprefix("_")).lower()
