"""Released models of the catalogue are exported as the family that they belong to."""

from __future__ import annotations

import pytest

import anyformer as af
from anyformer.huggingface.express import express

ROWS = {
    "deepseek-v2-lite": "deepseek_v2",
    "deepseek-v2": "deepseek_v2",
    "qwen3-next-80b-a3b": "qwen3_next",
    "lfm2-350m": "lfm2",
    "lfm2-8b-a1b": "lfm2_moe",
}


@pytest.mark.parametrize("name", ROWS)
def test_a_released_model_is_expressed_by_its_family(name):
    assert express(af.architecture(name))[0].model_type == ROWS[name]
