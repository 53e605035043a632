"""What vLLM is known to read otherwise is said when a directory is written, and shown by a committed comparison."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from benchmarks.engines.models import table_of
from benchmarks.engines.vllm_types import DEPARTURES, NATIVE

import anyformer as af
from anyformer.describe import Notice
from anyformer.huggingface.read_otherwise import READ_OTHERWISE, read_otherwise

ROWS = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "engines" / "vllm.json").read_text())["rows"]


def said(model_type, directory, **sizes):
    model = af.build(table_of(model_type, **{**NATIVE[model_type], **sizes}))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        af.export(model, directory, model_type=model_type)
    return [str(each.message) for each in found if issubclass(each.category, Notice)]


def test_export_says_what_vllm_computes_otherwise(tmp_path):
    (told,) = said("bloom", tmp_path / "bloom")
    assert "vLLM 0.32 computes GELU by the error function" in told


@pytest.mark.parametrize(
    ("model_type", "sizes", "other"),
    [("falcon", {}, False), ("falcon", {"ffn_hidden_size": 96}, True), ("llama", {}, False)],
)
def test_only_where_it_does(tmp_path, model_type, sizes, other):
    assert [each for each in said(model_type, tmp_path / "it", **sizes) if "vLLM" in each] == [
        f"{tmp_path / 'it'}: {each}" for each in read_otherwise({"model_type": "falcon", **sizes, "hidden_size": 64}) if other
    ]


def test_configurations_apply_by_what_they_say():
    assert read_otherwise({"model_type": "cohere2", "layer_types": ["full_attention"]}) == []
    assert "one token more" in read_otherwise({"model_type": "cohere2", "layer_types": ["sliding_attention"]})[0]
    assert read_otherwise({"model_type": "apertus", "dtype": "bfloat16"}) == []
    assert "bf16" in read_otherwise({"model_type": "apertus", "dtype": "float32"})[0]


def test_every_departure_is_in_the_committed_table():
    """Rows that differ are the departures, and numbers are vLLM's where the same is computed here."""
    assert set(DEPARTURES) <= set(READ_OTHERWISE)
    departing = {row["name"]: row for row in ROWS if "departs" in row}
    assert set(departing) == set(DEPARTURES)
    for name, row in departing.items():
        assert row["departs"] == READ_OTHERWISE[name][1]
        assert "with that here, 144 of 144 tokens are equal" in row["note"]
        assert float(row["note"].rpartition(" ")[2]) <= 1e-4


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [
        ("deepseek_v3", {"scoring_func": "sigmoid", "topk_method": "noaux_tc"}),
        ("lfm2", {"block_dim": 128, "conv_dim": 128}),
    ],
)
def test_keys_that_vllm_reads_are_written(tmp_path, model_type, keys):
    """transformers reads none of them; `python -m benchmarks.engines vllm` shows that vLLM does."""
    said(model_type, tmp_path / "it")
    table = json.loads((tmp_path / "it" / "config.json").read_text())
    assert {key: table.get(key) for key in keys} == keys
