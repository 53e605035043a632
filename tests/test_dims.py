"""The legend of dimension letters holds: in shape suffixes, in shapes of docstrings, and in the sizes that tensors have."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from types import FrameType

import pytest
import torch
from zoo import ZOO

from anyformer.describe import Value
from anyformer.describe.docstrings import field_docstrings
from anyformer.describe.value import subclasses
from anyformer.dims import LEGEND
from anyformer.model.transformer import build
from anyformer.testing.inputs import inputs

SOURCE = Path(__file__).parents[1] / "src" / "anyformer"
SUFFIX = re.compile(r"_*[a-z][a-z0-9_]*_([A-Z][A-Za-z0-9]*)")
"""`x_BTD`. Lower-case letters and digits in it are sizes of that one place."""
NAME = re.compile(rf"\b{SUFFIX.pattern}\b")
PIECES = re.compile(r'"\s*\n\s*[frb]*"')
"""Between the pieces of a string that is written in several lines."""
SHAPE = re.compile(r"(?<![\w.])\(([^()]+)\)")
ITEM = re.compile(
    r"[A-Z]|\d+|[a-z]+(?: [a-z]+)*|\.\.\.|[A-Za-z]_[a-z]|[A-Z] or \d|\d or [A-Z]|[A-Za-z\d]+(?: [-+*/] [A-Za-z\d]+)+"
)


def letters_of_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """(name, letter) of every name that carries its shape."""
    for node in nodes:
        name = next(
            (getattr(node, field) for field in ("id", "attr", "arg") if isinstance(getattr(node, field, None), str)), ""
        )
        if found := SUFFIX.fullmatch(name):
            yield from ((name, letter) for letter in found[1] if letter.isupper())


def letters_of_shapes(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """(shape, letter) of every shape in a docstring: parts between commas, of which one at least is a capital letter."""
    return letters_of_texts(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def letters_of_texts(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        for found in SHAPE.finditer(text):
            items = [item.strip() for item in found[1].split(",")]
            items = items[:-1] if items[-1] == "" else items
            single = [letter for item in items for letter in re.findall(r"\b[A-Z]\b", item)]
            if "," in found[1] and single and all(ITEM.fullmatch(item) for item in items):
                yield from ((found[0], letter) for letter in single)


def nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def unknown_letters(text: str, legend: Container[str] = LEGEND) -> list[tuple[str, str]]:
    """(name or shape, letter) of every letter that the legend lacks.

    A file is parsed only where its text has such a letter in what looks like a name or a shape: parsing all takes seconds.
    """
    looked_at = [(found[0], letter) for found in NAME.finditer(text) for letter in found[1] if letter.isupper()]
    looked_at += letters_of_texts([PIECES.sub("", text)])
    if all(letter in legend for _, letter in looked_at):
        return []
    nodes = nodes_of(text)
    return [each for each in (*letters_of_names(nodes), *letters_of_shapes(nodes)) if each[1] not in legend]


def test_every_letter_is_in_the_legend():
    unknown = {
        f"{path.relative_to(SOURCE)}: {what}: {letter}"
        for path in SOURCE.rglob("*.py")
        for what, letter in unknown_letters(path.read_text(encoding="utf-8"))
    }
    assert not unknown, f"take letters of LEGEND in src/anyformer/dims.py, or add what they mean there: {unknown}"


def test_a_letter_outside_the_legend_is_seen():
    assert sorted(letters_of_names(nodes_of("x_BTY = self.y_Y2 + f(z_BD)"))) == [
        ("x_BTY", "B"), ("x_BTY", "T"), ("x_BTY", "Y"), ("y_Y2", "Y"), ("z_BD", "B"), ("z_BD", "D")
    ]  # fmt: skip
    text = '"""(B, T, Y) -> (Y,), (2 * Y, D); not (Raffel et al. 2020, X), N(0, I), (see A, as said)."""'
    assert "".join(letter for _, letter in letters_of_shapes(nodes_of(text))) == "BTYYYD"
    for wrong in ("def f(x_BY): ...", "self.x_TY", '"""A tensor, (B, Y)."""', 'f("(B, "\n  "Y)")'):
        assert {letter for _, letter in unknown_letters(wrong, legend="BT")} == {"Y"}, wrong
    assert unknown_letters("# x_BY and (B, Y) in a comment\nX_Y = 1", legend="BT") == []


FIELDS = {
    "D": {"width"},
    "E": {"head_width", "value_width"},
    "F": {"width", "hidden"},
    "H": {"heads"},
    "I": {"features", "channels"},
    "K": {"kv_heads", "value_heads"},
    "M": {"key_width", "state_width"},
    "N": {"count"},
    "P": {"kv_rank", "latent", "width"},
    "R": {"rope_width"},
    "T": {"length", "count"},
    "U": {"value_width"},
    "V": {"vocab"},
    "X": {"experts"},
}
"""What the field is called whose docstring begins with the letter."""


def fields_with_letters() -> Iterator[tuple[type[Value], str, str, str]]:
    """(class, field, letter, docstring) of the fields of parts and models whose docstring begins with a letter."""
    for kind in subclasses(Value):
        if kind.__module__.startswith(("anyformer.parts", "anyformer.model")):
            for name, text in field_docstrings(kind).items():
                if letter := re.match(r"([A-Z])[.,]", text):
                    yield kind, name, letter[1], text.splitlines()[0]


def test_fields_say_their_letters():
    found = list(fields_with_letters())
    assert {letter for _, _, letter, _ in found} >= set("DEHKV"), "docstrings are found"
    wrong = {f"{kind.__name__}.{name}: {text}" for kind, name, letter, text in found if name not in FIELDS.get(letter, ())}
    assert not wrong, (
        f"fields whose docstring begins with a letter of another meaning in LEGEND of src/anyformer/dims.py; take another, "
        f"or if it is right add the field's name to FIELDS of this file: {wrong}"
    )


def sizes(frame: FrameType) -> Iterator[tuple[str, str, int]]:
    """(name, letter, size) of every local tensor that carries its shape, from its last dimension on."""
    for name, value in frame.f_locals.items():
        if isinstance(value, torch.Tensor) and (found := SUFFIX.fullmatch(name)):
            for letter, size in zip(reversed(found[1]), reversed(value.shape), strict=False):
                yield name, letter, size


def contradictions(call) -> set[str]:
    """Calls of the package in which one letter has two sizes; 1 goes with every size, as it is broadcast."""
    found = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and "anyformer" in frame.f_code.co_filename:
            seen: dict[str, tuple[str, int]] = {}
            for name, letter, size in sizes(frame):
                other, before = seen.setdefault(letter, (name, size))
                if letter in LEGEND and size != before and 1 not in (size, before):
                    where = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
                    found.add(f"{where}: {letter} is {before} in {other} and {size} in {name}")

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


WHOLE = [name for name, each in ZOO.items() if each.embedding_width is None]
"""D is two widths where embeddings are narrower than the stream."""
SAMPLE = dict.fromkeys([*WHOLE[::6], "latent", "latent_queries", "delta_channels", "streams", "capacity", "perceiver"])
"""Every sixth, for time: neighbours are alike."""


@pytest.mark.parametrize("name", SAMPLE)
def test_one_letter_is_one_size_in_a_call(name):
    model = build(ZOO[name]).eval()
    given = inputs(ZOO[name])
    assert not contradictions(lambda: model(*given))


def test_a_letter_of_two_sizes_is_seen():
    code = compile("def f():\n    x_BT, y_BD = zeros(2, 3), zeros(4, 5)\nf()", "anyformer/wrong.py", "exec")
    assert contradictions(lambda: exec(code, {"zeros": torch.zeros})) == {"wrong.py:f: B is 2 in x_BT and 4 in y_BD"}
