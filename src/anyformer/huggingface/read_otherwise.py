"""Directories that vLLM reads otherwise than transformers does, found by `python -m benchmarks.engines vllm`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Table = Mapping[str, Any]
VLLM = "vLLM 0.32"


def _sliding(table: Table) -> bool:
    return "sliding_attention" in (table.get("layer_types") or ())


def _other_width(table: Table) -> bool:
    return table.get("ffn_hidden_size") not in (None, 4 * table["hidden_size"])


def _fp32(table: Table) -> bool:
    return str(table.get("dtype", table.get("torch_dtype"))) == "float32"


def _plain_rotation(table: Table) -> bool:
    return str((table.get("rope_parameters") or {}).get("rope_type", "default")) == "default"


def _always(table: Table) -> bool:
    return True


_LATENT = (_plain_rotation, "on a processor turns latent queries otherwise from call to call where rope_type is default")
READ_OTHERWISE: Mapping[str, tuple[Callable[[Table], bool], str]] = {
    "apertus": (_fp32, "keeps the two learnt numbers of xIELU in bf16"),
    "bloom": (_always, "computes GELU by the error function, where BLOOM has the approximation by tanh"),
    "cohere2": (_sliding, "lets windows see one token more than sliding_window"),
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "falcon": (_other_width, "knows networks of four times the width alone, and does not open others"),
    "lfm2": (_always, "gives other numbers for one prompt from call to call on a processor"),
    "phimoe": (_always, "knows the class as PhiMoEForCausalLM, and does not open PhimoeForCausalLM"),
}
"""By model type: for which configurations, and what it does there."""


def read_otherwise(table: Table) -> list[str]:
    """What vLLM does otherwise with a directory of this configuration, in words."""
    applies, words = READ_OTHERWISE.get(str(table.get("model_type")), (_always, ""))
    return [f"{VLLM} {words}"] if words and applies(table) else []
