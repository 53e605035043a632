"""Pages of the reference: every public name of a package, for mkdocstrings to fill from its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGES = {
    "anyformer": ("The verbs", "What `import anyformer as af` gives."),
    "anyformer.objectives": ("Objectives", "What a model is trained to do: the value `objective` of a run."),
    "anyformer.objectives.policy": ("Losses of policies", "Reinforcement learning from rewards, part by part."),
    "anyformer.tasks": ("Tasks", 'Sequences made from a seed, with known answers: `data` of a run with `kind = "task"`.'),
    "anyformer.rewards": ("Rewards", "What answers are worth."),
    "anyformer.data": ("Data", "Texts, tokens and batches."),
    "anyformer.tuning": ("What learns, and how", "Adapters, frozen weights, optimisers: `tuning` and `optimiser` of a run."),
    "anyformer.training": ("Training", "One `Run` in, one directory out."),
    "anyformer.generation": ("Generation", "Prefill, decoding, the choice of tokens."),
    "anyformer.studies": ("Studies", "Arms, matching, tuning, verdicts."),
    "anyformer.evaluation": ("Evaluation", "What a trained model reaches."),
    "anyformer.probing": ("Probing", "What a model has learnt of a task."),
    "anyformer.inspecting": ("Inspection", "`anyformer.inspect`: lenses, attributions, patches, circuits."),
    "anyformer.describe": ("Descriptions", "Values, text, paths, errors."),
    "anyformer.costs": ("Costs", "Parameters, FLOPs, memory and time before anything is built."),
    "anyformer.pictures": ("Pictures", "Diagrams and masks."),
    "anyformer.quantising": ("Quantising", "Weights in few bits."),
    "anyformer.precision": ("Precision", "Number formats and rounding."),
    "anyformer.checkpoint": ("Checkpoints", "Sealed directories of safetensors."),
    "anyformer.huggingface": ("Hugging Face", "Directories in and out."),
    "anyformer.testing": ("Contracts", "What parts, tasks, objectives, optimisers and families owe."),
}
"""Packages with a page: its title, and what a reader finds there. One that is not there has no page."""
ROOMS = {
    "embedding": "Embeddings and heads",
    "attention": "Attention",
    "masks": "Masks",
    "positions": "Positions",
    "norms": "Norms",
    "feedforward": "Networks",
    "pointwise": "Activations",
    "experts": "Experts",
    "dictionary": "Sparse dictionaries",
    "recurrence": "Recurrent mixers",
    "layers": "Layers and their wiring",
    "images": "Images",
    "initialisation": "Initial values",
    "parametrisation": "Parametrisation by width (muP)",
    "call": "The call of a model",
}
"""Rooms of `anyformer.parts`, a page each."""
PARTS = "`from anyformer.parts import ...`. What papers call them stands in [a table of mechanisms](../reference/parts.md)."


@dataclass(frozen=True)
class ReferencePage:
    """A page of the reference: the names on it, as they are imported."""

    path: str
    title: str
    says: str
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """Its Markdown."""
        entries = "".join(f"\n::: {name}\n" for name in self.names)
        return f"# {self.title}\n\n{self.says}\n{entries}"


def pages(source: Path) -> list[ReferencePage]:
    """Every page of the reference of the package whose source stands in a directory."""
    made = []
    for package, (title, says) in PACKAGES.items():
        if names := sorted({f"{package}.{name}" for name, _ in exports(source, package)}, key=str.casefold):
            made.append(ReferencePage(f"api/{package.replace('.', '-')}.md", title, says, tuple(names)))
        if package == "anyformer":
            made += _rooms(source)
    return made


def _rooms(source: Path) -> Iterator[ReferencePage]:
    found: dict[str, list[str]] = {}
    for name, home in exports(source, "anyformer.parts"):
        found.setdefault(home.split(".")[2], []).append(f"anyformer.parts.{name}")
    assert not found.keys() - ROOMS.keys(), f"rooms of parts without a title in ROOMS: {found.keys() - ROOMS.keys()}"
    for room, title in ROOMS.items():
        if room in found:
            yield ReferencePage(f"api/parts-{room}.md", title, PARTS, tuple(sorted(found[room], key=str.casefold)))


def exports(source: Path, package: str) -> Iterator[tuple[str, str]]:
    """The public names that a package imports from its modules, and the module of every one; none where it is not there."""
    file = source.joinpath(*package.split("."), "__init__.py")
    if not file.is_file():
        return
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anyformer."):
            home = source.joinpath(*str(node.module).split(".")).with_suffix(".py")
            given = (alias.asname or alias.name for alias in node.names if not alias.name.startswith("_"))
            yield from ((name, str(node.module)) for name in given if not name.isupper() or name in _classes(home))


@cache
def _classes(module: Path) -> frozenset[str]:
    """The classes of a module, by which RWKV is told from a constant."""
    if not module.is_file():
        return frozenset()
    return frozenset(node.name for node in ast.parse(module.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))


def identifiers(source: Path) -> dict[str, str]:
    """Public names and their identifiers in the reference; the first page that has a name keeps it."""
    found: dict[str, str] = {}
    for page in pages(source):
        for name in page.names:
            found.setdefault(name.rsplit(".", 1)[1], name)
    return found
