"""Questions about a function whose answer is a part of its source: what it returns, raises, goes over, assigns, a default.

Each answer is the only one: a question is asked where the syntax tree has one such place. `start` is the character of `context`
at which `answer` begins.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from anyformer.data.builtin.code import FunctionNode, functions, tree_of
from anyformer.data.builtin.source import Builtin, Values, standard_library
from anyformer.data.sources import SourceFile

_LONGEST = 80
"""Characters of an answer at most."""
Asked = tuple[str, ast.expr | ast.arg]


def asked(node: FunctionNode) -> Iterator[Asked]:
    """Questions about a function, each with the only place that answers it."""
    inside = list(ast.walk(node))
    arguments = [*node.args.posonlyargs, *node.args.args]
    own = [each for each in arguments if each.arg not in ("self", "cls")]
    if own:
        yield "What is the first argument?", own[0]
    for argument, default in zip(reversed(arguments), reversed(node.args.defaults), strict=False):
        yield f"What is the default of {argument.arg}?", default
    yield from _only("What does it return?", [each.value for each in inside if isinstance(each, ast.Return) and each.value])
    yield from _only("What does it raise?", [each.exc for each in inside if isinstance(each, ast.Raise) and each.exc])
    yield from _only("What does the loop go over?", [each.iter for each in inside if isinstance(each, ast.For)])
    yield from _only("What is the condition of the if?", [each.test for each in inside if isinstance(each, ast.If)])
    values: dict[str, list[ast.expr]] = {}
    for each in inside:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            values.setdefault(each.targets[0].id, []).append(each.value)
    written = [each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    for name, assigned in values.items():
        if written.count(name) == 1:
            yield from _only(f"What is assigned to {name}?", assigned)


def _only(question: str, found: list[ast.expr]) -> Iterator[Asked]:
    if len(found) == 1:
        yield question, found[0]


def _spans(source: SourceFile) -> Iterator[Values]:
    for function in functions(source):
        context = function.code
        tree = tree_of(context)
        if tree is None or not isinstance(node := tree.body[0], FunctionNode):
            continue
        begins = _begins(context)
        for question, place in asked(node):
            start = _character(context, begins, place.lineno, place.col_offset)
            end = _character(context, begins, place.end_lineno or 0, place.end_col_offset or 0)
            answer = place.arg if isinstance(place, ast.arg) else context[start:end]
            if len(answer) <= _LONGEST and "\n" not in answer:
                yield function.line, {"context": context, "question": question, "answer": answer, "start": start}


def _begins(text: str) -> list[int]:
    """The character at which a line begins."""
    begins = [0]
    for line in text.split("\n"):
        begins.append(begins[-1] + len(line) + 1)
    return begins


def _character(text: str, begins: list[int], line: int, column: int) -> int:
    """The place of a line from 1 and a byte in it, as the syntax tree counts."""
    begin, end = begins[line - 1], begins[line]
    return begin + len(text[begin:end].encode()[:column].decode())


SPANS = Builtin(
    "python-spans",
    "Questions with answers in a text: what a function returns, raises, assigns, takes.",
    _spans,
    standard_library,
)
