"""How often features are active on held-out text, and what the values that they were learnt of are called."""

from __future__ import annotations

import shutil

import pytest

from anyformer import checkpoint
from anyformer.data import Bytes, Text
from anyformer.evaluation.features import features_of
from anyformer.model import dictionary_alone
from anyformer.objectives import SAEObjective, TranscoderObjective
from anyformer.objectives.sparse import SOURCE
from anyformer.parts import Dictionary, TopKCode
from anyformer.plan import Plan
from anyformer.training import Run
from anyformer.training.partners import FOLDER

WIDTH, FEATURES, K, LENGTH = 16, 12, 3, 32
CASES = {
    "sae": (
        {"path": "decoder.layer[-1].output"},
        ("blocks.1.hook_resid_post", "blocks.1.hook_resid_post"),
        (["decoder.layer[1].output"], ["decoder.layer[1].output"]),
    ),
    "transcoder": (
        {"path": "decoder.layer[0].feedforward.input", "target": "decoder.layer[0].feedforward.output"},
        ("decoder.layer[0].feedforward.input", "blocks.0.hook_mlp_out"),
        (["decoder.layer[0].feedforward.input"], ["decoder.layer[0].feedforward.output"]),
    ),
}
"""Objective -> its fields, hooks and paths that are read and written; what no hook is called keeps its path."""


@pytest.mark.parametrize("kind", CASES)
def test_features_of_a_run_and_the_names_of_its_paths(kind, make_run, first, texts):
    fields, hooks, paths = CASES[kind]
    objective = {"sae": SAEObjective, "transcoder": TranscoderObjective}[kind](source=str(first), **fields)
    run = Run(
        steps=1, batch=4, length=LENGTH, plan=Plan(precision="fp32", compile="off"), objective=objective,
        data=Text(paths=(str(texts),), tokenizer=Bytes(), validation=0.2),
        architecture=dictionary_alone(Dictionary(features=FEATURES, code=TopKCode(k=K)), WIDTH),
    )  # fmt: skip
    place = make_run(0, run=run)
    shutil.copytree(checkpoint.newest(first), place / FOLDER / SOURCE)
    shares, metadata = features_of(place)
    assert shares.shape == (FEATURES,)
    assert 0 < float(shares.sum()) <= K
    assert bool((shares <= 1).all())
    assert (metadata["hook_name"], metadata["hook_name_out"]) == hooks
    assert (metadata["paths"], metadata["paths_out"]) == paths
    assert (metadata["model_name"], metadata["context_size"]) == (str(first), LENGTH)


def test_a_model_of_another_objective_has_none(first):
    assert features_of(first) == (None, {})
