"""GPT-2: LayerNorm pre-norm, learned positions, fused projections stored input first."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.gpt_line import (
    BASE,
    INERT,
    MASKS,
    NORMS,
    ROUNDING,
    TRANSPOSED,
    gpt_attentions,
    gpt_names,
    learned_decoder,
)
from anyformer.model import Architecture
from anyformer.parts import LayerNorm

_NEMO = ("apply_query_key_layer_scaling", "normalize_attention_scores")
"""Left in GPT-SW3's files by what trained it; nobody reads them."""


def read(config: Config) -> Architecture:
    config.assume(n_layer=12, n_embd=768)
    width = config("n_embd")
    return learned_decoder(config, width, gpt_attentions(config, width, 12), "gelu_new", LayerNorm())


FAMILIES = (
    Family(
        "gpt2",
        read,
        gpt_names(NORMS, TRANSPOSED),
        "GPT2LMHeadModel",
        inert=(*INERT, *ROUNDING, *_NEMO),
        ignored=(MASKS,),
        base=BASE,
    ),
)
