"""GPT-J and CodeGen: attention and feed-forward side by side behind one norm, part of each head rotated in adjacent pairs."""

from __future__ import annotations

import math
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import gpt2
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Groups, Names, Table, To
from anyformer.huggingface.spelling import activation, initialisation, longest
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, LayerNorm, Rotary, parallel
from anyformer.parts.sublayer import head_width

OUTSIDE: Table = {"embedding": "transformer.wte", "decoder.final_norm": "transformer.ln_f", "head": "lm_head"}
COMMON: Table = {
    "step_0_norm_before": "ln_1",
    "attention.output": "attn.out_proj",
    "feedforward.up": "mlp.fc_in",
    "feedforward.down": "mlp.fc_out",
}
SEPARATE: Table = {"attention.query": "attn.q_proj", "attention.key": "attn.k_proj", "attention.value": "attn.v_proj"}
# Rows as four accelerators held them: a fourth of the heads each, queries, then values, then keys.
SHARDED: Table = {("attention.query", "attention.value", "attention.key"): To("attn.qkv_proj", Groups(4))}
MASKS = r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias|causal_mask|embed_positions)"


def share(rotated: int, features: int) -> float:
    """The fraction of a head that rotates, such that `int(fraction * features)` gives the number back."""
    fraction = rotated / features
    return fraction if int(fraction * features) == rotated else math.nextafter(fraction, 1)


def read(config: Config) -> Architecture:
    width, heads = config("n_embd", 4096), config("n_head", 16)
    for name in ("rotary", "scale_attn_weights"):
        config.expect(name, True)
    attention = Attention(
        heads=heads,
        rotary=Rotary(fraction=share(config("rotary_dim", 64), head_width(width, heads, None)), pairing="adjacent"),
        dropout=config("attn_pdrop", 0.0),
    )
    feedforward = FeedForward(
        width=config("n_inner", None) or 4 * width,
        activation=activation(config("activation_function", "gelu_new")),
        gated=False,
        bias=("up", "down"),
    )
    norm = LayerNorm(eps=config("layer_norm_epsilon", 1e-5))
    block = parallel(norm, attention, feedforward, dropout=config("resid_pdrop", 0.0))
    return decoder_only(
        Embedding(vocab=config("vocab_size", 50400)),
        width,
        [block] * config("n_layer", 28),
        dropout=config("embd_pdrop", 0.0),
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", False), bias=True),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, "decoder.layer.attention.sublayer")
    rotary: Rotary = get(architecture, "decoder.layer.attention.rotary")
    return gpt2.common(architecture) | {
        "n_positions": longest(architecture, 8192),
        "n_inner": get(architecture, "decoder.layer.feedforward.width"),
        "activation_function": gpt2.write_gelu(get(architecture, "decoder.layer.feedforward.activation")),
        "attn_pdrop": attention.dropout,
        "rotary_dim": rotary.rotated(attention.width_of_head(architecture.width)),
    }


def names(projections: Table) -> Names:
    return Names(OUTSIDE, {"decoder": (gpt2.LAYER, {**COMMON, **projections})})


FAMILIES = (
    Family(
        "gptj",
        read,
        write,
        lambda architecture: names(SEPARATE),
        "GPTJForCausalLM",
        inert=(*gpt2.INERT, "n_positions"),
        ignored=(MASKS,),
        base=gpt2.BASE,
    ),
    Family(
        "codegen",
        read,
        write,
        lambda architecture: names(SHARDED),
        "CodeGenForCausalLM",
        inert=(*gpt2.INERT, "n_positions"),
        ignored=(MASKS,),
        base=gpt2.BASE,
    ),
)
