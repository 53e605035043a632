"""The model card of an export: what the model is, of what, trained how, and how well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from anyformer.huggingface.families.anyformer import class_of
from anyformer.huggingface.family import Family
from anyformer.huggingface.openings import openings
from anyformer.huggingface.registry import own
from anyformer.huggingface.remote_files import AUTO, NEEDED
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.text import Tokenizer
from anyformer.text.beside import README, Beside

_CARRIED = ("license", "license_name", "license_link", "language")
"""Keys at the head of a card that a model trained further inherits."""
_TASKS = {"ForCausalLM": "text-generation", "LMHeadModel": "text-generation", "ForMaskedLM": "fill-mask",
          "ForSequenceClassification": "text-classification", "ForTokenClassification": "token-classification",
          "ForQuestionAnswering": "question-answering"}  # fmt: skip
"""End of a class's name -> the hub's word for its task."""


@dataclass(frozen=True)
class Facts:
    """What is known of a training: `base`, the model that it started from; `figures`: what was reached, by name."""

    base: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


def card(architecture: Architecture, family: Family, beside: Beside, facts: Facts, tokenizer: Tokenizer | None) -> str:
    """The text of a README.md as the hub reads it; the base's licence and language are carried over."""
    named = class_of(architecture) if family is own() else family.default_class
    head = _carried(beside.text(README) or "")
    head += [f"base_model: {facts.base}"] if facts.base else []
    head += ["library_name: transformers", "tags:", "- anyformer", *_task(named)]
    weights = architecture.trained_cost(Shape()).weights.values()
    count = sum(prod(weight.shape) for weight in weights)
    what = f"{architecture.shape_of_model} of {count:,} parameters, width {architecture.width}"
    kind = "anyformer's own layout" if family is own() else f"model type `{family.model_type}`"
    title = f"{facts.base}, trained further" if facts.base else family.model_type
    lines = ["---", *head, "---", "", f"# {title}", "", f"A {what}; {kind}."]
    lines += [
        *_use(family, named, tokenizer),
        *(_engines(architecture) if family is own() else []),
        *_training(facts),
        *_figures(facts),
    ]
    return "\n".join(lines) + "\n"


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


def _use(family: Family, named: str, tokenizer: Tokenizer | None) -> list[str]:
    remote = family is own()
    name, more = (AUTO[named], ", trust_remote_code=True") if remote else (named, "")
    names = sorted([name, *(["AutoTokenizer"] if tokenizer is not None else [])])
    lines = [
        "",
        "## Use",
        "",
        *([f"Its package computes it: `pip install '{NEEDED}'`.", ""] if remote else []),
        "```python",
        f"from transformers import {', '.join(names)}",
    ]
    lines += ["", f'model = {name}.from_pretrained("PATH"{more})']
    return [*lines, *(['tokenizer = AutoTokenizer.from_pretrained("PATH")'] if tokenizer is not None else []), "```"]


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
