"""Two processes train as one does: every mode, with models, optimisers and adapters of many kinds. All have one group of
processes."""

from __future__ import annotations

import json
import runpy

import pytest
from benchmarks.equality import ARCHITECTURES, FEW, MODES, OPTIMISERS, RANKS, RESULT, Case, belongs, every_case, launched
from benchmarks.forms import FORMS

CASES = (
    "gpt2:tensor:adamw", "llama-3-8b:context:muon", "deepseek-v3:expert:adamw", "qwen3-next-80b-a3b:shard:schedule_free",
    "t5-small:tensor:adafactor", "electra-small:pipeline:adamw_8bit", "t5-small:pipeline interleaved:adamw",
    "deepseek-v2-lite:pipeline zero-bubble:adamw", "llama-3-8b:tensor:adamw:DoRA", "deepseek-v2-lite:context:adamw:LoRA",
    "mixtral-8x7b:pipeline:adamw:LoRA on nf4", "mixtral-8x7b:shard:adamw:fp8 by running",
    "mixtral-8x7b:tensor:adamw:fp8 by tensor, else fp32", "gpt2:data:adamw:two pieces",
)  # fmt: skip
LARGEST, FARTHEST = 1e-5, 2e-4
"""Of losses and gradients, and of weights: where a gradient is nearly zero, Adam divides its rounding by its size."""


def test_two_processes_train_as_one_does(start_in, tmp_path):
    found = list(launched(map(Case.of, CASES), 2, tmp_path, start_in))
    assert {each.case for each in found} == set(CASES)
    for each in found:
        assert each.loss < 1e-6, each
        assert each.gradient < LARGEST, each
        assert each.weight < FARTHEST, each


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
def test_more_processes_train_as_one_does(ranks, tmp_path):
    found = list(launched(every_case(ranks), ranks, tmp_path))
    assert len(found) == len(every_case(ranks))
    assert max(max(each.loss, each.gradient) for each in found) < LARGEST
    assert max(each.weight for each in found) < FARTHEST


def test_the_committed_table_is_whole_and_equal():
    results = json.loads(RESULT.read_text(encoding="utf-8"))["results"]
    assert {(each["ranks"], each["case"]) for each in results} == {
        (ranks, str(case)) for ranks in RANKS for case in every_case(ranks)
    }
    assert max(max(each["loss"], each["gradient"]) for each in results) < LARGEST
    assert max(each["weight"] for each in results) < FARTHEST
    cases = [Case.of(each["case"]) for each in results]
    assert {(case.mode, case.architecture) for case in cases} == {
        (mode, name)
        for mode, meshes in MODES.items()
        for name in FEW.get(mode, ARCHITECTURES)
        if any(belongs(name, mesh) for mesh in meshes.values())
    }
    assert {(case.mode, case.optimiser) for case in cases} == {
        (mode, name) for mode in MODES for name in (("adamw",) if mode in FEW else OPTIMISERS)
    }
    assert {case.form for case in cases} == FORMS.keys()


def test_the_page_has_the_table():
    maker = runpy.run_path(str(RESULT.parents[2] / "docs" / "make_cluster.py"))
    for path, text in maker["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/make_cluster.py"
