"""Changes to the text of Python files that have a place for one more: an import, an entry of a table, a case, a definition."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Sequence

from anyformer.describe import UserError

WIDEST = 128


class NoPlaceError(UserError):
    """A file has not the place where something should be entered; the message names it."""


def imported(text: str, module: str, name: str) -> str:
    """With `from module import name`, in the order in which ruff sorts."""
    tree = ast.parse(text)
    if name in _bound(tree):
        raise NoPlaceError(f"{name} is the name of something else there already: take another one")
    found = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module is not None]
    lines = text.splitlines(keepends=True)
    for node in found:
        if node.module == module:
            names = sorted([*(alias.name for alias in node.names), name], key=_import_order)
            line = f"from {module} import {', '.join(names)}\n"
            if len(line) > WIDEST + 1 or (node.end_lineno or 0) > node.lineno:
                line = f"from {module} import (\n" + "".join(f"    {each},\n" for each in names) + ")\n"
            lines[node.lineno - 1 : node.end_lineno] = [line]
            return "".join(lines)
    first = re.match(r"\w+\.", module)
    beside = [node for node in found if first is not None and (node.module or "").startswith(first[0])]
    if not beside:
        raise NoPlaceError(f"it imports nothing beside which {module} could stand")
    later = next((node.lineno - 1 for node in beside if (node.module or "") > module), beside[-1].end_lineno)
    assert later is not None
    lines.insert(later, f"from {module} import {name}\n")
    return "".join(lines)


def exported(text: str, name: str) -> str:
    """With a name in `__all__`, which is sorted: names in capitals, classes, and others."""
    node = _table(text, "__all__")
    earlier = [each for each in ast.literal_eval(node) if _export_order(each) < _export_order(name)]
    if not earlier:
        raise NoPlaceError(f"its __all__ has no name before {name}")
    before = f'"{earlier[-1]}"'
    lines = text.splitlines(keepends=True)
    place = next(at for at in range(node.lineno - 1, node.end_lineno or 0) if before in lines[at])
    line = lines[place]
    indent = line[: len(line) - len(line.lstrip())]
    first, rest = line.split(before)
    comma = "," if rest.startswith(",") else ""  # none behind the last name of a list in one line
    if line.strip() == f"{before},":
        lines.insert(place + 1, f'{indent}"{name}",\n')
    elif len(joined := f'{first}{before}, "{name}"{rest}') <= WIDEST + 1:
        lines[place] = joined
    else:
        lines[place] = f'{first}{before},\n{indent}"{name}"{comma}{rest.removeprefix(",")}'
    return "".join(lines)


def entered(text: str, table: str, entry: str) -> str:
    """With one more entry, at the end of the dictionary, the tuple or the call that is assigned to `table`."""
    node = _table(text, table)
    lines = text.splitlines(keepends=True)
    end = (node.end_lineno or 0) - 1
    closing = lines[end]
    if node.lineno - 1 == end or not re.match(r"\s*[)}\]]", closing):
        raise NoPlaceError(f"its {table} has no line of its own for one more entry")
    if not lines[end - 1].rstrip().endswith((",", "(", "{", "[")):
        raise NoPlaceError(f"its {table} does not end with a comma")
    indent = closing[: len(closing) - len(closing.lstrip())] + "    "
    lines.insert(end, textwrap.indent(entry, indent))
    return "".join(lines)


def cased(text: str, function: str, case: str) -> str:
    """With one more case, in the last `match` of a function."""
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == function]
    matches = [node for each in found for node in ast.walk(each) if isinstance(node, ast.Match)]
    if not matches:
        raise NoPlaceError(f"it has no function {function} with a `match`")
    lines, last = text.splitlines(keepends=True), matches[-1]
    lines.insert(last.end_lineno or 0, textwrap.indent(case, " " * (last.cases[0].pattern.col_offset - len("case "))))
    return "".join(lines)


def defined(text: str, before: str, definition: str) -> str:
    """With one more definition, before the statement that assigns `before`."""
    tree = ast.parse(text)
    (made,) = ast.parse(definition).body
    if isinstance(made, ast.FunctionDef) and made.name in _bound(tree):
        raise NoPlaceError(f"{made.name} is the name of something else there already: take another one")
    for node in tree.body:
        if before in _targets(node):
            lines = text.splitlines(keepends=True)
            lines.insert(node.lineno - 1, f"{definition}\n\n")
            return "".join(lines)
    raise NoPlaceError(f"it has no {before}")


def _table(text: str, name: str) -> ast.expr:
    """What is assigned to a name, as far as it is a list of entries."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node) and node.value is not None:
            return _listing(node.value)
    raise NoPlaceError(f"it has no {name}")


def _listing(node: ast.expr) -> ast.expr:
    match node:
        case ast.DictComp():  # {each.__name__: each for each in (...)}
            return _listing(node.generators[0].iter)
        case ast.BinOp():  # OTHERS | {...}
            return _listing(node.right)
        case ast.Call(args=[ast.Dict() as only]):  # MappingProxyType({...})
            return only
    return node


def _targets(node: ast.stmt) -> Sequence[str]:
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def bound_twice(text: str) -> set[str]:
    """Names that a module binds more than once, as by an import and by a class."""
    return {name for name, times in Counter(_bound(ast.parse(text))).items() if times > 1}


def _bound(tree: ast.Module) -> list[str]:
    """The names that the statements of a module bind."""
    names: list[str] = []
    for node in tree.body:
        names += _targets(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    return names


def _import_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, each without regard to capitals."""
    return _rank(name), name.lower()


def _export_order(name: str) -> tuple[int, str]:
    return _rank(name), name


def _rank(name: str) -> int:
    return 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
