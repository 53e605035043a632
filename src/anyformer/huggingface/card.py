"""The model card of an export: what the model is, of what, trained how, and how well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Self

from anyformer.data.builtin import SOURCES
from anyformer.data.description import STDLIB
from anyformer.hub import PREFIX, is_hub, parsed
from anyformer.huggingface.families.anyformer import class_of
from anyformer.huggingface.family import Family
from anyformer.huggingface.openings import openings
from anyformer.huggingface.registry import own
from anyformer.huggingface.remote_files import AUTO, NEEDED
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.text import Tokenizer
from anyformer.text.beside import README, Beside

PLACE = "PATH"
"""What a model is loaded by that is on no hub yet."""
_CARRIED = ("license", "license_name", "license_link", "language")
"""Keys at the head of a card that a model trained further inherits."""
_TASKS = {"ForCausalLM": "text-generation", "LMHeadModel": "text-generation", "ForMaskedLM": "fill-mask",
          "ForSequenceClassification": "text-classification", "ForTokenClassification": "token-classification",
          "ForQuestionAnswering": "question-answering"}  # fmt: skip
"""End of a class's name -> the hub's word for its task."""


_TOLD = ("objective", "batch", "length", "optimiser", "schedule", "tuning", "seed")
"""Fields of a run that its card tells."""


@dataclass(frozen=True)
class Facts:
    """What is known of a training: `base`, the model that it started from; `figures`: what was reached, by name."""

    base: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Mapping[str, Any], updates: Any, loss: float | None) -> Self:
        """What a card tells of a run as plain data, its number of updates and its validation loss.

        A card is read by others: of a base that is on no hub it says no name, and of files how many they are.
        """
        told = {"updates": updates, **{key: run[key] for key in _TOLD if key in run}}
        data, base = run.get("data", {}), run.get("start_from")
        told["data"] = {"kind": data.get("kind"), "files": _files(data.get("paths", ()))}
        return cls(base, told, {} if loss is None else {"validation loss": loss})

    @property
    def public_base(self) -> str | None:
        """The name of the base on its hub; None where it is on none."""
        return parsed(self.base).repo if self.base is not None and is_hub(self.base) else None


def _files(paths: Sequence[str]) -> str:
    """Names of built-in texts, and the number of all other files and folders."""
    shipped = [path for path in paths if path in SOURCES or path == STDLIB]
    own = len(paths) - len(shipped)
    return ", ".join([*shipped, *([f"{own} of its own"] if own else [])])


def card(
    architecture: Architecture, family: Family, beside: Beside, facts: Facts, tokenizer: Tokenizer | None, name: str = PLACE
) -> str:
    """The text of a README.md as the hub reads it; the base's licence and language are carried over.

    `name`: what the model is loaded by, such as its name on a hub.
    """
    named = class_of(architecture) if family is own() else family.default_class
    head = _carried(beside.text(README) or "")
    base = facts.public_base
    head += [f"base_model: {base}", "base_model_relation: finetune"] if base else []
    head += ["library_name: transformers", "tags:", "- anyformer", f"- {family.model_type}", *_task(named)]
    head += _index(named, facts, name)
    weights = architecture.trained_cost(Shape()).weights.values()
    count = sum(prod(weight.shape) for weight in weights)
    what = f"{architecture.shape_of_model} of {count:,} parameters, width {architecture.width}"
    kind = "anyformer's own layout" if family is own() else f"model type `{family.model_type}`"
    title = name.rpartition("/")[2] if name != PLACE else f"{base or family.model_type}{', trained further' * bool(facts.base)}"
    lines = ["---", *head, "---", "", f"# {title}", "", f"A {what}; {kind}."]
    lines += ["", f"Trained further from {facts.base.removeprefix(PREFIX)}."] if base and facts.base else []
    lines += _use(family, named, tokenizer, name)
    lines += _engines(architecture) if family is own() else []
    lines += [*_training(facts), *_figures(facts)]
    return "\n".join(lines) + "\n"


def adapter_card(base: str, kind: str, family: Family, facts: Facts, name: str = PLACE) -> str:
    """The text of a README.md for an adapter alone, which PEFT loads beside a model of a hub."""
    head = [f"base_model: {base}", "base_model_relation: adapter", "library_name: peft", "tags:", "- anyformer", f"- {kind}"]
    head += _task(family.default_class)
    use = ["from peft import AutoPeftModel", "", f'model = AutoPeftModel.from_pretrained("{name}")', "```"]
    title = name.rpartition("/")[2] if name != PLACE else f"{base}, trained further"
    lines = ["---", *head, "---", "", f"# {title}", "", f"An adapter ({kind}) of {base}.", "", "## Use", "", "```python", *use]
    return "\n".join([*lines, *_training(facts), *_figures(facts)]) + "\n"


def _carried(text: str) -> list[str]:
    """The lines of the base's card that are inherited, each with the list below it."""
    found = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
    kept, keeps = [], False
    for line in found[1].splitlines() if found else []:
        key = re.match(r"([A-Za-z_]+):", line)
        keeps = key[1] in _CARRIED if key else keeps
        kept += [line] if keeps else []
    return kept


def _task(named: str) -> list[str]:
    task = next((task for end, task in _TASKS.items() if named.endswith(end)), None)
    return [f"pipeline_tag: {task}"] if task else []


def _index(named: str, facts: Facts, name: str) -> list[str]:
    """The figures as the hub lists them."""
    task = next((line.partition(": ")[2] for line in _task(named)), None)
    if not facts.figures or task is None:
        return []
    lines = ["model-index:", f"- name: {name.rpartition('/')[2]}", "  results:", "  - task:", f"      type: {task}"]
    lines += ["    dataset:", "      name: held-out part of the training data", "      type: held-out", "    metrics:"]
    for figure, value in facts.figures.items():
        lines += [f"    - name: {figure}", f"      type: {figure.rpartition(' ')[2]}", f"      value: {value:.4f}"]
    return lines


def _use(family: Family, named: str, tokenizer: Tokenizer | None, name: str) -> list[str]:
    remote = family is own()
    loader, more = (AUTO[named], ", trust_remote_code=True") if remote else (named, "")
    names = sorted([loader, *(["AutoTokenizer"] if tokenizer is not None else [])])
    lines = [
        "",
        "## Use",
        "",
        *([f"Its package computes it: `pip install '{NEEDED}'`.", ""] if remote else []),
        "```python",
        f"from transformers import {', '.join(names)}",
    ]
    lines += ["", f'model = {loader}.from_pretrained("{name}"{more})']
    return [*lines, *([f'tokenizer = AutoTokenizer.from_pretrained("{name}")'] if tokenizer is not None else []), "```"]


def _engines(architecture: Architecture) -> list[str]:
    """What opens a directory in our own layout, and why others do not."""
    lines = ["", "## Engines", "", "| | |", "| --- | --- |"]
    for opening in openings(architecture):
        lines.append(f"| {opening.engine} | {'; '.join(('no', *opening.reasons)) if opening.reasons else f'`{opening.how}`'} |")
    return lines


def _training(facts: Facts) -> list[str]:
    if not facts.run:
        return []
    shown = {key: value for key, value in facts.run.items() if key not in ("architecture", "plan")}
    return ["", "## Training", "", *(f"- {key}: {_plain(value)}" for key, value in shown.items())]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_plain(each)}" for key, each in value.items())
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else str(value)


def _figures(facts: Facts) -> list[str]:
    if not facts.figures:
        return []
    rows = [f"| {name} | {value:.4f} |" for name, value in facts.figures.items()]
    return ["", "## Evaluation", "", "| | |", "| --- | --- |", *rows]
