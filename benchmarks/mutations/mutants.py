"""One-line mutants of a package, by the operators of cosmic-ray and one of our own, and a seeded sample of them.

A place is a line's text, the column in it and the family of operators. The sample takes the places whose hashes are smallest,
so that an edit of one line changes the sample nowhere else; among the mutants of a place a hash chooses too.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import parso
from benchmarks.mutations.mutant import Mutant
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider

Position = tuple[tuple[int, int], tuple[int, int]]


class StatementRemover(Operator):
    """Replaces a call that stands alone, or an assignment like `x += 1`, with `pass`."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[Position]:
        if node.type == "simple_stmt" and node.start_pos[0] == node.children[0].end_pos[0]:
            statement = node.children[0]
            changes = statement.type == "expr_stmt" and statement.children[1].type == "operator"
            augments = changes and statement.children[1].value not in ("=", ":")
            calls = statement.type == "atom_expr" and statement.children[-1].type == "trailer"
            if augments or (calls and statement.children[-1].children[0].value == "("):
                yield (statement.start_pos, statement.end_pos)

    def mutate(self, node: parso.tree.BaseNode, index: int) -> parso.tree.BaseNode:
        removed = node.children[0]
        node.children[0] = parso.python.tree.Keyword("pass", removed.start_pos, removed.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("model.eval()", "pass"), Example("x += 1", "pass"))


@dataclass(frozen=True)
class Place:
    """Mutants of one family at one position: pairs of an operator's name and its occurrence in the file."""

    key: str
    path: str
    line: int
    choices: tuple[tuple[str, int], ...]


ARITHMETIC = {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"}
ALIKE = ({"Eq", "Is"}, {"NotEq", "IsNot"})
"""Comparisons that differ only by which equal values the interpreter makes once."""


@cache
def operators() -> dict[str, Operator]:
    """Every operator that makes a mistake somebody could make, by its name."""
    known = OperatorProvider()
    classes = [known[name] for name in known if not known[name].arguments() and _subtle(name)]
    return {each.__name__: each() for each in (*classes, StatementRemover)}


@cache
def _operators_of(kind: str) -> dict[str, Operator]:
    """Those that may change a node of this kind: most look at one kind alone, and none at names and strings."""
    if kind in ("name", "string", "newline", "endmarker", "fstring_start", "fstring_string", "fstring_end"):
        return {}
    others = {"operator": "ReplaceComparisonOperator", "comparison": "ReplaceBinaryOperator"}
    left_out = others.get(kind, ("ReplaceComparisonOperator", "ReplaceBinaryOperator"))
    return {name: each for name, each in operators().items() if not name.startswith(left_out)}


def _subtle(name: str) -> bool:
    """Whether it is not an operator on bits in place of one on numbers, whose error every test sees, nor one of `ALIKE`."""
    family, *pair = name.split("_")
    if family == "ReplaceBinaryOperator":
        return (pair[0] in ARITHMETIC) == (pair[1] in ARITHMETIC)
    return set(pair) not in ALIKE


def sample(
    root: Path,
    rooms: tuple[str, ...],
    count: int,
    seed: int,
    done: Callable[[int], None] = lambda n: None,
    known: dict[str, Any] | None = None,
) -> list[Mutant]:
    """`count` mutants of the files below `rooms`, all places of all files equally likely.

    `known`: what an earlier call found, as plain data; it is brought up to date, and only changed files are read again.
    """
    files = sorted(path for room in rooms for path in (root / room).rglob("*.py"))
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}
    names = {path: _hash(seed, path, text) for path, text in texts.items()}
    known = {} if known is None else known
    for name in set(known) - set(names.values()):
        del known[name]
    places = []
    for number, (path, text) in enumerate(texts.items()):
        if names[path] not in known:
            found = [[place.key, place.line, place.choices] for place in places_of(path, text, seed)]
            known[names[path]] = {"places": found, "drawn": {}}
        each = known[names[path]]["places"]
        places += [Place(key, path, line, tuple((name, at) for name, at in choices)) for key, line, choices in each]
        done(number + 1)
    chosen: list[Mutant] = []
    for place in sorted(places, key=lambda place: place.key):
        if len(chosen) == count:
            break
        before = known[names[place.path]]["drawn"]
        if place.key not in before:
            mutant = drawn(place, texts[place.path])
            before[place.key] = None if mutant is None else asdict(mutant)
        if before[place.key] is not None:
            chosen.append(Mutant(**before[place.key]))
    return chosen


def places_of(path: str, text: str, seed: int = 0) -> list[Place]:
    """Where a file can be changed, and by what."""
    found: dict[tuple[Position, str], list[tuple[str, int]]] = defaultdict(list)
    seen: dict[str, int] = defaultdict(int)
    for node in ast_nodes(get_ast(text)):
        for name, operator in _operators_of(node.type).items():
            for position in operator.mutation_positions(node):
                found[position, type(operator).__module__].append((name, seen[name]))
                seen[name] += 1
    lines = text.splitlines()
    before = [line.strip() for line in lines]
    places = []
    for ((row, column), _), family in found:
        again = before[: row - 1].count(before[row - 1])
        indent = len(lines[row - 1]) - len(lines[row - 1].lstrip())
        key = _hash(seed, path, before[row - 1], again, column - indent, family)
        choices = found[next(each for each in found if each[0][0] == (row, column) and each[1] == family)]
        places.append(Place(key, path, row, tuple(choices)))
    return places


def drawn(place: Place, text: str) -> Mutant | None:
    """One of the mutants of a place; None if none changes one line of code that runs."""
    for name, occurrence in sorted(place.choices, key=lambda choice: _hash(place.key, *choice)):
        with suppress(AttributeError):  # cosmic-ray cannot replace an exception with a dotted name
            changed = None
            changed = mutate_code(text, operators()[name], occurrence)
        if changed is None or (lines := changed_line(text, changed)) is None or not matters(text, changed):
            continue
        number, after = lines
        return Mutant(place.key, place.path, number, name, text.splitlines()[number - 1], after)
    return None


def changed_line(before: str, after: str) -> tuple[int, str] | None:
    """The number and the new text of the only line that differs; None if there are more."""
    old, new = before.splitlines(), after.splitlines()
    differ = [number for number, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]]
    if len(old) != len(new) or len(differ) != 1:
        return None
    return differ[0] + 1, new[differ[0]]


def matters(before: str, after: str) -> bool:
    """Whether a change is more than one of types: the code differs once types are left out, and can be compiled."""
    try:
        return _without_types(before) != _without_types(after)
    except SyntaxError:
        return False


class _Types(ast.NodeTransformer):
    """Leaves of each annotation only what is called in it, as `Field(ge=0)`, since that is all that is more than a type."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        calls = [each for each in ast.walk(node.annotation) if isinstance(each, ast.Call)]
        node.annotation = ast.List(calls)
        return self.generic_visit(node)


def _without_types(text: str) -> str:
    return ast.dump(_Types().visit(ast.parse(text)))


def _hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:20]
