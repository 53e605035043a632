"""A decode step that is recorded once and repeated: the same calls of torch on the same memory, without the model's own Python.

Nothing is compiled, and every bit is that of the plain step. It can be repeated because a decode state keeps its tensors from
step to step and counts positions in tensors: the token and the first free slot alone are new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import getitem
from typing import Any
from weakref import WeakSet

from torch import Tensor, fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_any, tree_map_only

from anyformer.generation.decode import decode
from anyformer.model import Transformer
from anyformer.parts.call.stack_state import StackState
from anyformer.quantising import Packed, join

MULTIPLE = 256
"""Slots by which the visible part of the state grows: recording takes as long as some ten steps of a small model."""
READS = frozenset({"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__iter__"})
"""Calls by which Python learns the values of a tensor, on which it may decide what it calls next."""

CASTS = frozenset({"to", "float", "type_as", "contiguous"})
"""Calls that give the tensor itself where it is already as they ask."""


class Recorder(TorchFunctionMode):
    """Inside, every call of torch is made and put down in `graph`.

    `given`: the tensors that are new in each repetition; `kept`: all others that the calls read and did not make. Not `whole`:
    Python read values, so the calls may be others next time.
    """

    def __init__(self, given: Sequence[Tensor]) -> None:
        super().__init__()
        self.graph, self.kept, self.whole = fx.Graph(), list[Tensor](), True
        self._nodes: dict[int, fx.Node] = {}
        self._alive: list[Tensor] = []
        """All that have a node: a tensor that is gone may leave its identity to another."""
        for number, tensor in enumerate(given):
            self._name(tensor, self.graph.placeholder(f"given_{number}"))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(issubclass(each, Packed) for each in types):
            with self:  # so that the calls that read its planes are put down
                made = Packed.instead(func, args, kwargs)
            if made is not None:
                return made
        self.whole = self.whole and func.__name__ not in READS
        made = func(*args, **kwargs)
        # `x[i] = y` gives nothing; what gives only numbers, such as a shape, changes nothing and is the same next time.
        gives = made is None or tree_any(lambda each: isinstance(each, Tensor), made)
        needless = func.__name__ in CASTS and made is args[0]
        if self.whole and gives and not needless:
            words = tree_map_only(Tensor, self._node, (args, kwargs))
            if func.__name__ == "__get__":  # such as `x.T`
                func, words = getattr, ((words[0][0], func.__self__.__name__), {})
            self._put_down(self.graph.call_function(func, *words), made)
        return made

    def repeating(self, result: Tensor) -> Callable[..., Tensor]:
        """A function of the given tensors that makes all calls again, and gives what `result` then is."""
        self.graph.output(self._nodes[id(result)])
        calls, kept = fx.GraphModule({}, self.graph).forward, tuple(reversed(self.kept))
        return lambda *given: calls(*kept, *given)

    def _put_down(self, node: fx.Node, made: Any) -> None:
        if isinstance(made, Tensor):
            if id(made) not in self._nodes:
                self._name(made, node)
        elif isinstance(made, tuple | list):
            for number, each in enumerate(made):
                self._put_down(self.graph.call_function(getitem, (node, number)), each)

    def _node(self, tensor: Tensor) -> fx.Node:
        if id(tensor) not in self._nodes:
            with self.graph.inserting_before(next(iter(self.graph.nodes))):
                self._name(tensor, self.graph.placeholder(f"kept_{len(self.kept)}"))
            self.kept.append(tensor)
        return self._nodes[id(tensor)]

    def _name(self, tensor: Tensor, node: fx.Node) -> None:
        self._nodes[id(tensor)] = node
        self._alive.append(tensor)


@dataclass(frozen=True)
class Recording:
    """The repetition of a step for one model, state and number of visible slots; None for one that cannot be repeated."""

    model: Transformer
    state: StackState
    visible: int
    repeat: Callable[[Tensor, Tensor], Tensor] | None

    def fits(self, model: Transformer, state: StackState) -> bool:
        """Whether a step reads and writes the same memory."""
        return self.model is model and self.state is state and self.visible == state.slots.visible


_JOINED: WeakSet[Transformer] = WeakSet()
"""The models that were watched in a step, and whose matrices that read one input are joined."""


@dataclass
class RecordedDecode:
    """`decode` for the steps of one text, recorded anew where a step reads other memory than the one before.

    The first step of a model of packed matrices is watched: those that read the same input are joined for all that follow.
    """

    recording: Recording | None = None

    def __call__(self, model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
        if model not in _JOINED:
            _JOINED.add(model)
            if any(isinstance(value, Packed) for value in model.parameters()):
                return join(model, partial(decode, model, tokens_B, state))
        if self.recording is None or not self.recording.fits(model, state):
            with Recorder((tokens_B, state.slots.start)) as recorder:
                logits = decode(model, tokens_B, state)
            repeat = recorder.repeating(logits) if recorder.whole else None
            self.recording = Recording(model, state, state.slots.visible, repeat)
            return logits
        if self.recording.repeat is None:
            return decode(model, tokens_B, state)
        return self.recording.repeat(tokens_B, state.slots.start)
