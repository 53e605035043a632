"""The calls of torch that a step makes, put down as a graph that makes them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

from torch import Tensor, fx
from torch.overrides import TorchFunctionMode

from anyformer.parts.experts.chosen import chosen_product
from anyformer.parts.experts.grouped import grouped_products
from anyformer.quantising import Packed

READS = frozenset({"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__iter__"})
"""Calls by which Python learns the values of a tensor, on which it may decide what it calls next."""

CASTS = frozenset({"to", "float", "type_as", "contiguous"})
"""Calls that give the tensor itself where it is already as they ask."""
MADE_OF_PRODUCTS = frozenset({grouped_products, chosen_product})
"""Calls that take packed matrices as they are, and choose among them by values."""


Calls = Callable[..., Tensor]


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
            if func not in MADE_OF_PRODUCTS and func.__name__ not in (*CASTS, "__get__"):
                args, kwargs = _each(_whole, (args, kwargs))
        self.whole = self.whole and func.__name__ not in READS
        made = func(*args, **kwargs)
        # `x[i] = y` gives nothing; what gives only numbers, such as a shape, changes nothing and is the same next time.
        gives = made is None or _holds_tensor(made)
        needless = func.__name__ in CASTS and made is args[0]
        if self.whole and gives and not needless:
            words = _each(self.node, (args, kwargs))
            if func.__name__ == "__get__":  # such as `x.T`
                func, words = getattr, ((words[0][0], func.__self__.__name__), {})
            self._put_down(self.graph.call_function(func, *words), made)
        return made

    def calls(self, result: Tensor) -> Calls:
        """A function of the kept and then the given tensors that makes all calls again, and gives what `result` then is."""
        return self.in_order(self.module(result).forward)

    def module(self, result: Tensor) -> fx.GraphModule:
        """The calls as a module, whose arguments are in the order of the graph."""
        self.graph.output(self._nodes[id(result)])
        return fx.GraphModule({}, self.graph)

    def in_order(self, calls: Calls) -> Calls:
        """`calls`, as of `module`, with its arguments in the order of `kept`: those that were met first stand last there."""
        count = len(self.kept)
        return lambda *tensors: calls(*reversed(tensors[:count]), *tensors[count:])

    def _put_down(self, node: fx.Node, made: Any) -> None:
        if isinstance(made, Tensor):
            if id(made) not in self._nodes:
                self._name(made, node)
        elif isinstance(made, tuple | list):
            for number, each in enumerate(made):
                self._put_down(self.graph.call_function(getitem, (node, number)), each)

    def node(self, tensor: Tensor) -> fx.Node:
        """The node that gives a tensor; one that no call made is kept from now on."""
        if id(tensor) not in self._nodes:
            with self.graph.inserting_before(next(iter(self.graph.nodes))):
                self._name(tensor, self.graph.placeholder(f"kept_{len(self.kept)}"))
            self.kept.append(tensor)
        return self._nodes[id(tensor)]

    def replace(self, node: fx.Node, by: fx.Node) -> None:
        """Let another node give what `node` gives, also where that is the result."""
        node.replace_all_uses_with(by)
        self._nodes = {tensor: by if each is node else each for tensor, each in self._nodes.items()}
        self.graph.erase_node(node)

    def _name(self, tensor: Tensor, node: fx.Node) -> None:
        self._nodes[id(tensor)] = node
        self._alive.append(tensor)


def _each(change: Callable[[Tensor], Any], value: Any) -> Any:
    """Arguments with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_each(change, each) for each in value) if value else value
    if isinstance(value, dict):
        return {key: _each(change, each) for key, each in value.items()}
    return value


def _holds_tensor(value: Any) -> bool:
    """Whether a call gave a tensor, or several."""
    return isinstance(value, Tensor) or (isinstance(value, tuple | list) and any(map(_holds_tensor, value)))


def _whole(tensor: Tensor) -> Tensor:
    """The matrix that a packed one holds."""
    return tensor.whole if isinstance(tensor, Packed) else tensor
