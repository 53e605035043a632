"""The room of Hugging Face's files: no circle of imports, families that know no other family, and errors that are errors."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from zoo import DECODERS

from anyformer import huggingface
from anyformer.describe import DescriptionError, Problem
from anyformer.huggingface import find

ROOM = Path(huggingface.__file__).parent
FILES = {
    ".".join(("anyformer.huggingface", *path.relative_to(ROOM).with_suffix("").parts)): path for path in ROOM.rglob("*.py")
}
MODULES = {name.removesuffix(".__init__"): path for name, path in FILES.items()}


def imported(path: Path) -> set[str]:
    """Modules of this room that a file imports, wherever in the file; the registry imports every family."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & MODULES.keys()) or {node.module}
    if "importlib.import_module(" in path.read_text(encoding="utf-8") and path.stem == "registry":
        found |= {name for name in MODULES if ".families." in name}
    return found & MODULES.keys()


def test_no_circle_of_imports():
    graph = {name: imported(path) for name, path in MODULES.items()}
    assert len(graph) > 100
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_family_imports_words_and_rules_and_no_other_family():
    for name, path in MODULES.items():
        if ".families." in name or ".words." in name:
            others = {each for each in imported(path) if ".families." in each or each.endswith((".registry", ".find"))}
            assert not others, f"{name} imports {others}: what families share belongs into words/"


def test_a_mistake_in_a_family_is_no_other_family(monkeypatch):
    """Only refusals say that a model type does not fit."""

    def broken(config):
        return config.no_such_method()

    family = huggingface.family("llama")
    monkeypatch.setattr(find, "family", lambda model_type: type(family)("llama", broken, family.names, family.default_class))
    with pytest.raises(AttributeError, match="no_such_method"):
        huggingface.find_family(DECODERS["llama"], "llama")


def test_a_refused_description_is_told_by_its_problems(monkeypatch):
    """Not by the line above them, which only says of what they are."""
    problems = [Problem("decoder.layer.attention", "an odd width"), Problem("decoder.layer.attention", "an odd width")]

    def odd(config):
        raise DescriptionError(problems, where="Architecture")

    family = huggingface.family("llama")
    monkeypatch.setattr(find, "family", lambda model_type: type(family)("llama", odd, family.names, family.default_class))
    with pytest.raises(huggingface.HuggingFaceError) as told:
        huggingface.find_family(DECODERS["llama"], "llama")
    assert str(told.value) == "llama cannot express this architecture: decoder.layer.attention: an odd width"


def test_a_refusal_says_each_reason_once_and_where():
    with pytest.raises(huggingface.HuggingFaceError) as told:
        huggingface.find_family(DECODERS["llama"], "bert")
    words = str(told.value)
    assert words.startswith("bert cannot express this architecture: ")
    reasons = words.partition(": ")[2].split("; ")
    assert len(reasons) == len(set(reasons))
    assert "Architecture:" not in words
