"""Jinja's sandbox with bounds: no operation of a template begins before it is known that it ends soon and fits into memory.

Loops, calls, filters, comparisons, slices and sums of texts go through here: the sandbox hands calls and operators over itself,
and the others become filters in the tree of the template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from jinja2 import nodes, pass_context
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from anyformer.text.chat.budget import SLOT, CountedItems, current, made
from anyformer.text.chat.growth import FILTERS, METHODS, WIDTHS, Size, check_numbers, of_operator, whole

_COMPARING = ("eq", "equalto", "==", "ne", "!=", "gt", "greaterthan", ">", "ge", ">=", "lt", "lessthan", "<", "le", "<=", "in")
_LONG = 8
"""Items of a list in a template from which on it is counted."""
_PLAIN = frozenset((str, int, float, bool, type(None)))
_OWNERS = (str, bytes, list, tuple, dict, int, float)
"""What has methods of Python's own."""


class Bounded(ImmutableSandboxedEnvironment):
    """Templates whose operations are counted by the budget of the chat that is written."""

    intercepted_binops = frozenset(("+", "*", "%", "**"))

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=_shown, **options)
        del self.globals["lipsum"]
        plain = ImmutableSandboxedEnvironment(**options)
        self._plain = plain
        self.filters |= {name: _filter(plain, name) for name in plain.filters}
        self.filters |= {"_counted": CountedItems, "_joined": _joined, "_cut": _cut, "_weighed": _weighed, "_made": _made}
        self.tests |= {name: _comparison(plain, name) for name in _COMPARING}

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        """A filter that is not Jinja's."""
        self._plain.filters[name] = function
        self.filters[name] = _filter(self._plain, name)

    @staticmethod
    def concat(parts: Any) -> str:
        """What a macro or a block has written."""
        parts = list(parts)
        current().take(sum(map(len, parts)))
        return "".join(parts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = current()
        budget.step()
        budget.take(of_operator(budget, operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, *args: Any, **named: Any) -> Any:
        budget = current()
        budget.step()
        kind = type(function)
        owner = None if kind is Macro else getattr(getattr(function, "__wrapped__", function), "__self__", None)
        if kind is LoopContext:
            args = (CountedItems(args[0]), *args[1:]) if args else args
        elif isinstance(owner, _OWNERS):
            given = (*args, *named.values())
            if function.__name__ in WIDTHS:
                check_numbers(given)
            size: Size = METHODS.get(function.__name__, whole)
            budget.take(size(budget, owner, *given))
        elif kind is not Macro:
            budget.weigh(*args, *named.values())
        found = super().call(context, function, *args, **named)
        budget.take(made(found))
        return found

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(argument) not in _PLAIN:
            current().weigh(argument)
        return super().getitem(obj, argument)

    def bounded(self, source: str) -> nodes.Template:
        """The tree of a template, in which what the sandbox does not hand over is a filter."""
        tree: nodes.Template = _Bounding().visit(self.parse(source))
        return tree


class _Bounding(NodeTransformer):
    """Names of methods are the library's own form."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.iter = _through("_counted", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _through("_joined", nodes.Tuple(node.nodes, "load", lineno=node.lineno))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        ends = [each or nodes.Const(None) for each in (node.arg.start, node.arg.stop, node.arg.step)]
        return _through("_cut", node.node, *ends)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        self.generic_visit(node)
        node.expr = _seen(node.expr)
        for operand in node.ops:
            operand.expr = _seen(operand.expr)
        return node

    def visit_List(self, node: nodes.List) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return node if len(node.items) < _LONG else _through("_made", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return node if len(node.items) < _LONG or node.ctx != "load" else _through("_made", node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        for pair in node.items:
            pair.key = _seen(pair.key)
        return node if len(node.items) < _LONG else _through("_made", node)


def _through(name: str, value: nodes.Node, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(cast("nodes.Expr", value), name, list(args), [], None, None, lineno=value.lineno)


def _seen(value: nodes.Expr) -> nodes.Expr:
    """A value to be looked at wholly; what stands in the template itself is as small as that."""
    inside = value.items if isinstance(value, nodes.List | nodes.Tuple) else [value]
    return value if all(isinstance(each, nodes.Const) for each in inside) else _through("_weighed", value)


def _filter(plain: ImmutableSandboxedEnvironment, name: str) -> Callable[..., Any]:
    """One of Jinja's filters, counted; what it makes one by one becomes a list."""
    size: Size = FILTERS.get(name, whole)

    @pass_context  # so nothing is computed while the template is read
    def counted(context: Context, value: Any, *args: Any, **named: Any) -> Any:
        budget = current()
        budget.step()
        given = (*args, *named.values())
        if name in WIDTHS:
            check_numbers(given)
        budget.take(size(budget, value, *given))
        found = plain.call_filter(name, value, args, named, context=context, eval_ctx=context.eval_ctx)
        if isinstance(found, Iterator):
            found = list(CountedItems(found))
        budget.take(made(found))
        return found

    return counted


def _comparison(plain: ImmutableSandboxedEnvironment, name: str) -> Callable[..., Any]:
    test = cast("Callable[..., Any]", plain.tests[name])

    def compared(value: Any, other: Any) -> Any:
        current().step()
        current().weigh(value, other)
        return test(value, other)

    return compared


def _shown(value: Any) -> Any:
    """A value that is about to be written."""
    if type(value) is not str:
        current().take(current().weigh(value))
    return value


def _joined(values: tuple[Any, ...]) -> str:
    budget = current()
    budget.step()
    budget.take(budget.weigh(*values) + SLOT)
    return "".join(map(str, values))


def _cut(value: Any, start: Any, stop: Any, step: Any) -> Any:
    found = value[start:stop:step]
    current().step()
    current().take(made(found))
    return found


def _weighed(value: Any) -> Any:
    """A value that is about to be compared, or to be a key."""
    if type(value) not in _PLAIN or (type(value) is str and len(value) > 100):
        current().weigh(value)
    return value


def _made(value: Any) -> Any:
    current().take(made(value))
    return value
