"""GPT-J and CodeGen: parallel attention and network with one norm, part of each head rotated in adjacent pairs."""

from __future__ import annotations

import math
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.fixed_tables import ROTARY_WAVES
from anyformer.huggingface.rules import GroupedRows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.gpt_line import BASE, INERT, gpt_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Rotary,
    Softmax,
    parallel,
)

_LAYER: Table = {
    "step_0_norm_before": "ln_1",
    "attention.output": "attn.out_proj",
    "feedforward.up": "mlp.fc_in",
    "feedforward.down": "mlp.fc_out",
}
_SEPARATE: Table = {f"attention.{side}": f"attn.{side[0]}_proj" for side in words.QKV}
# Rows as four accelerators held them: each a quarter of the heads, as queries, values and keys.
_SHARDED: Table = {("attention.query", "attention.value", "attention.key"): To("attn.qkv_proj", GroupedRows(4))}


def read(config: Config) -> Architecture:
    config.assume(n_embd=4096, n_layer=28)
    config.expect_all(rotary=True, scale_attn_weights=True)
    width, heads = config("n_embd"), config("n_head", 16)
    fraction = share(config("rotary_dim", 64, _rotated), words.head_width(config, width, heads))
    rotary = Rotary(fraction=fraction, pairing="adjacent")
    attention = Attention(heads=heads, place=rotary, weigh=Softmax(dropout=config("attn_pdrop", 0.0)))
    wide = words.four_times(config, width, "n_inner")
    network = words.plain(config, "gelu_new", "activation_function", size=None, width=wide)
    norm = words.layer_norm(config, key="layer_norm_epsilon")
    block = parallel(norm, attention, network, dropout=config("resid_pdrop", 0.0))
    keys: dict[str, Any] = {"vocab": 50400, "width": "n_embd", "length": "n_positions", "unlimited": 8192}
    around = {"dropout": config("embd_pdrop", 0.0)}
    return words.decoder(config, words.repeated(config, block, "n_layer"), norm, **keys, around=around, bias=True)


def share(rotated: int, features: int) -> float:
    """The fraction of a head that rotates, for which `int(fraction * features)` equals `rotated`."""
    fraction = rotated / features
    return fraction if int(fraction * features) == rotated else math.nextafter(fraction, 1)


def _rotated(target: Target) -> int:
    target("attention.rotary.fraction")
    return int(target("attention.rotary").rotated(words.implied_width(target)))


_OUTSIDE: Table = {"embedding": "transformer.wte", "decoder.final_norm": "transformer.ln_f", "head": "lm_head"}
_INERT = (*INERT, "n_positions")
_IGNORED = (r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias|causal_mask)",)
_FIXED = {r"(transformer\.)?h\.\d+\.attn\.embed_positions": ROTARY_WAVES}
FAMILIES = tuple(
    Family(
        model_type,
        read,
        gpt_names(_LAYER, projections, outside=_OUTSIDE),
        default_class,
        inert=_INERT,
        ignored=_IGNORED,
        fixed=_FIXED,
        base=BASE,
    )
    for model_type, projections, default_class in (
        ("gptj", _SEPARATE, "GPTJForCausalLM"),
        ("codegen", _SHARDED, "CodeGenForCausalLM"),
    )
)
