"""Nothing above the parts knows their kinds, or reads a name to learn what it means."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from zoo import ZOO

import anyformer.parts as parts
from anyformer.describe import Value
from anyformer.describe.value import subclasses
from anyformer.model import Architecture
from anyformer.operations import Shape
from sources import SOURCE, Defined, defined, defined_in
from test_floors import FILES, FLOOR, room_of

FOREIGN = {"huggingface", "porting", "cli"}
"""Rooms whose work is names: those of other people's configurations and weights, and those that people type."""
ABOVE = [path for path in FILES if FLOOR[room_of(path)] > FLOOR["parts"] and room_of(path) not in FOREIGN]
PATHS = {
    "checkpoint/model.py": 1, "costs/activations.py": 1, "costs/change_labels.py": 1, "costs/counts.py": 1,
    "costs/explain.py": 1, "costs/fine_tuning.py": 1, "costs/saved/record.py": 1, "costs/saved/watched.py": 1,
    "costs/difference.py": 1, "data/fields.py": 1, "exploring/parts.py": 1, "measuring/measure.py": 1,
    "planning/stages.py": 1, "quantising/model.py": 1, "resolving.py": 1, "testing/rewards.py": 1,
}  # fmt: skip
"""Files that cut a dotted path to find its place in a description, a record or a module, and read no meaning from it."""
RIDDLES = {
    "abreast", "ahead", "along", "apart", "asking", "before", "beyond", "carrying", "close", "departed", "directly",
    "failing", "foretold", "form", "joined", "kept", "looked", "outside", "placed", "reach", "remembered", "seal",
    "seconds", "seen", "shown", "spelled", "spoken", "standing", "there", "told", "watching", "within", "written",
}  # fmt: skip
"""Names that say how a file stands to others, or what was done, and not what is in it."""


@cache
def kinds() -> frozenset[str]:
    """Every `kind` of a part."""
    own = (each for each in subclasses(Value) if each.__module__.startswith("anyformer.parts"))
    return frozenset(each.model_fields["kind"].default for each in own if "kind" in each.model_fields) - {None}


@cache
def words() -> frozenset[str]:
    """Every word in the name of a declared weight, FLOPs or decode state, but for names that a description chooses or lists;
    of parts that `anyformer new --package` begins too, whose checkout would fail in a file that nobody changed."""
    begun = "".join(path.read_text() for path in (SOURCE / "starting_points").glob("*.jinja"))
    found = {*re.findall(r'"(\w+)\.(?:weight|bias)"', begun), *re.findall(r'(?:matrix|vector)\("(\w+)"', begun)}
    assert {"gate", "output"} <= found
    chosen = set(Architecture.model_fields)
    for architecture in ZOO.values():
        tally = architecture.folded_cost(Shape(batch=1, length=2, source=2 * architecture.two_inputs))
        for name in (*tally.weights, *tally.flops, *tally.state_bytes):
            found |= {word for word in name.split(".") if not word.isdigit()}
        chosen |= {variant for stack in architecture.stacks.values() for variant in stack.variants}
    return frozenset(found - chosen)


def literals(node: ast.AST) -> set[str]:
    """Strings written out in an expression: one, or a tuple, list or set of them."""
    inner = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return {each.value for each in inner if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def means_something(text: str) -> bool:
    return bool(set(text.strip(".").split(".")) & words())


Comparison = tuple[ast.Compare, list[ast.expr], set[str]]


def comparisons(nodes: Iterable[ast.AST]) -> Iterator[Comparison]:
    """(comparison, what is compared, with which strings)."""
    for node in nodes:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            sides = [node.left, *node.comparators]
            written = set().union(*map(literals, sides))
            if written:
                yield node, [side for side in sides if not literals(side)], written


def is_field(node: ast.expr) -> bool:
    """A typed field, whose values its class lists; not a `name`."""
    return isinstance(node, ast.Attribute) and node.attr not in ("name", "path")


def nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def readings(text: str) -> list[str]:
    """Where a file learns from a name: by comparing it, by its beginning or end, by cutting it at its dots."""
    nodes, found = nodes_of(text), []
    for node, sides, written in comparisons(nodes):
        if any(map(means_something, written)) and not all(map(is_field, sides)):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        given = literals(node.args[0])
        cut = node.func.attr in ("split", "rsplit", "partition", "rpartition") and given == {"."}
        asked = node.func.attr in ("startswith", "endswith") and any(map(means_something, given))
        if cut or asked:
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def test_nothing_above_the_parts_reads_a_name_to_learn_what_it_means():
    """Where it reads less than the list says, write the smaller number there."""
    found = {str(path.relative_to(SOURCE)): readings(path.read_text()) for path in ABOVE}
    counts = {path: len(lines) for path, lines in found.items() if lines}
    assert counts == PATHS, {path: found[path] for path, count in counts.items() if count != PATHS.get(path)}


def asked_for_kinds(text: str) -> list[str]:
    """Where a file compares the kind of a part."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node, sides, written in comparisons(nodes_of(text) if ".kind" in text else ())
        if written & kinds() and any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides)
    ]


def test_nothing_above_the_parts_asks_for_a_kind():
    """No isinstance of a part, no comparing its kind, no probing for attributes."""
    names = "|".join(name for name, each in vars(parts).items() if isinstance(each, type))
    for path in ABOVE:
        text = path.read_text()
        assert not re.search(rf"isinstance\([^)]*\b({names})\b", text), path
        assert not asked_for_kinds(text), path
        assert "hasattr(" not in text, path


def test_both_laws_can_be_broken():
    assert asked_for_kinds("if mask.kind == 'causal' or part.kind in ('attention', 'x'): pass") == [
        "1: mask.kind == 'causal'",
        "1: part.kind in ('attention', 'x')",
    ]
    assert not asked_for_kinds("rule.kind == 'documents'; row['kind'] == 'train'; part.kind == kind")
    broken = ["own == 'up'", "name in ('gate', 'x')", "each.name != 'head.logits'", "name.startswith('router.')"]
    broken += ["name.endswith('.scores')", "path.split('.')[3]", "path.rpartition('.')", "'router' == name"]
    for line in broken:
        assert readings(line), line
    for line in ("work.unit == 'attention'", "name == 'decoder'", "mode == 'train'", "path.split('/')"):
        assert not readings(line), line


def places_of_classes(files: dict[str, Defined]) -> dict[str, list[str]]:
    """Every class by its name, private and inner ones too: where it stands."""
    found = defaultdict(list)
    for path, each in files.items():
        for name, line in each.classes:
            found[name].append(f"{path}:{line}")
    return found


def test_a_class_name_means_one_thing():
    files = {str(path.relative_to(SOURCE)): defined(path) for path in FILES}
    several = {name: places for name, places in places_of_classes(files).items() if len(places) > 1}
    assert several == {}
    two = {"a": defined_in("class Line: ..."), "b": defined_in("def f():\n    class Line: ...")}
    assert places_of_classes(two) == {"Line": ["a:1", "b:2"]}


def riddles(paths: list[Path]) -> set[str]:
    """Modules whose name does not say what they hold."""
    return {str(path) for path in paths if path.stem in RIDDLES}


def test_modules_say_what_they_hold():
    assert riddles([path.relative_to(SOURCE) for path in FILES]) == set()
    assert riddles([Path("costs/standing.py"), Path("costs/saved/live_bytes.py")]) == {"costs/standing.py"}
