"""The code of a function and how many ways lead through it: log2 of McCabe's cyclomatic complexity (1976).

The complexity is 1 + the number of decisions: if and its short form, for, while, except, assert, case, the conditions of
comprehensions, and each further operand of `and` and `or`. It is read from the syntax tree; the text does not say it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from anyformer.data.builtin.code import functions, tree_of
from anyformer.data.builtin.source import Builtin, Values, standard_library
from anyformer.data.sources import SourceFile

_DECISIONS = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert, ast.match_case)


def complexity(tree: ast.AST) -> int:
    """1 + the number of decisions inside."""
    found = 1
    for node in ast.walk(tree):
        if isinstance(node, _DECISIONS):
            found += 1
        elif isinstance(node, ast.comprehension):
            found += len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
    return found


def _branches(source: SourceFile) -> Iterator[Values]:
    for function in functions(source):
        tree = tree_of(function.code)
        if tree is not None:
            yield function.line, {"text": function.code, "value": math.log2(complexity(tree))}


BRANCHES = Builtin(
    "python-branches",
    "Numbers: the code of a function, and the logarithm of its cyclomatic complexity.",
    _branches,
    standard_library,
)
