"""The nodes of a program, taken out of the traces that it was made by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.atlas.evaluator_number import LEAVES, Node, NumberTrace, Traced


class KeptNodes:
    """The nodes that figures and guards of several traces need, each once."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[Node, int] = {}

    def begin(self, trace: NumberTrace) -> None:
        """Take nodes of another trace from here on."""
        self.trace, self.numbers = trace, dict[int, int]()

    def node(self, at: int) -> int:
        """The number here of a node, behind those of its operands."""
        waiting = [at]
        while waiting:
            now = waiting[-1]
            operator, *operands = self.trace.nodes[now]
            leaf = operator in LEAVES
            if not leaf and (new := [each for each in operands if each not in self.numbers]):
                waiting += reversed(new)
                continue
            waiting.pop()
            self.numbers[now] = self._placed((operator, *(operands if leaf else (self.numbers[each] for each in operands))))
        return self.numbers[at]

    def _placed(self, node: Node) -> int:
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return self._known[node]

    def figures(self, found: Any) -> Any:
        """Plain data, traced numbers as nodes."""
        if type(found) is Traced:
            constant = self.trace.nodes[found.at][0] in ("int", "float")
            return found.value if constant else {"=": self.node(found.at)}
        if isinstance(found, Mapping):
            return {name: self.figures(item) for name, item in found.items()}
        return [self.figures(item) for item in found] if isinstance(found, list | tuple) else found
