"""dots3-note's sizes by layer: older keys mean the same as tables, and what no layer can have is refused."""

from __future__ import annotations

from typing import Any

import pytest

from anyformer import huggingface
from anyformer.model import Architecture
from huggingface.cases import CASES

BASE = next(case.config for case in CASES if case.model_type == "dots3_note_text") | {"model_type": "dots3_note_text"}
LOCAL = {
    "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 9, "kv_lora_rank": 11, "head_dim": 12,
    "qk_rope_head_dim": 6, "v_head_dim": 5,
}  # fmt: skip
PLAIN = {key: value for key, value in BASE.items() if not key.startswith("swa_")}
TYPES = {"layer_types": ["indexed_attention"] * 2 + ["sliding_attention"] * 2}


def read(config: dict[str, Any]) -> Architecture:
    return huggingface.read_architecture(huggingface.Config(config))[0]


def test_older_keys_mean_what_tables_by_layer_do():
    assert read(BASE) == read({**PLAIN, **TYPES, "per_layer_config": {"02": LOCAL, "3": LOCAL}})


def test_sizes_that_no_key_names_are_those_of_the_class():
    local = read(PLAIN).decoder.variants["local_experts"].branches["latent_attention"].sublayer
    assert (local.heads, local.q_rank, local.kv_rank, local.nope_width, local.rope_width) == (64, 1024, 1024, 192, 64)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"2": LOCAL, "3": LOCAL | {"v_head_dim": 6}}, "per_layer_config.3 differs from that of earlier layers of its type"),
        ({"2": LOCAL, "3": LOCAL | {"hidden_size": 6}}, "per_layer_config.3 has hidden_size, which no layer can change"),
        ({"last": LOCAL}, "should have numbers of layers, not last"),
        ({"2": {"v_head_dim": "wide"}}, 'per_layer_config.2.v_head_dim = "wide" should be a whole number'),
    ],
)
def test_tables_that_fit_no_layer_are_refused(tables, said):
    with pytest.raises(huggingface.HuggingFaceError, match=said):
        read({**PLAIN, **TYPES, "per_layer_config": tables})
