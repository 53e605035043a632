"""GPT-Neo: GPT-2 with unscaled scores, separate projections, and windows in every other layer."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.gpt_line import BASE, INERT, MASKS, NORMS, gpt_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Causal,
    LearnedPosition,
    Projection,
    Score,
    Softmax,
    Window,
    pre_norm,
)

_LAYERS: Table = {
    **{f"attention.{side}": f"attn.attention.{side[0]}_proj" for side in words.QKV},
    "attention.output": "attn.attention.out_proj",
    "feedforward.up": "mlp.c_fc",
    "feedforward.down": "mlp.c_proj",
}
_PERIODS: list[Any] = [(["global", "local"], 12)]


def read(config: Config) -> Architecture:
    config.assume(hidden_size=2048, num_layers=24)
    norm, width = words.layer_norm(config, key="layer_norm_epsilon"), config("hidden_size")
    wide = words.four_times(config, width, "intermediate_size")
    network = words.plain(config, "gelu_new", "activation_function", size=None, width=wide)
    dropout = config("attention_dropout", 0.0)
    attention = Attention(
        heads=config("num_heads", 16),
        project=Projection(bias=("output",)),
        score=Score(scale=1.0),
        weigh=Softmax(dropout=dropout),
    )
    masks = {"dense": Causal(), "local": Window(size=config("window_size", 256))}
    rate = config("resid_dropout", 0.0)

    def block(kind: str) -> Block:
        return pre_norm(norm, attention.but(mask=masks[kind]), network, dropout=rate)

    length, dropout = config("max_position_embeddings", 2048), config("embed_dropout", 0.0)
    around = {"position": LearnedPosition(length=length), "dropout": dropout}
    return words.decoder(config, words.layered(block, _kinds(config)), norm, tied=True, vocab=50257, around=around)


def _kinds(config: Config) -> list[str]:
    """`dense` or `local` for every layer, from lists of (period, repetitions)."""
    periods = config("attention_types", None, lambda target: [[_written(target), 1]]) or _PERIODS
    layers = [kind for period, count in periods for kind in period * count]
    config.expect("attention_layers", layers, why="it follows from attention_types")
    depth = config("num_layers")
    if len(layers) != depth or set(layers) - {"global", "local"}:
        raise HuggingFaceError(
            f"{config.where}: attention_types should give global or local for each of num_layers = {depth} layers, got {layers}"
        )
    return ["dense" if kind == "global" else kind for kind in layers]


def _written(target: Target) -> list[str]:
    return ["local" if mask.window else "global" for mask in target.each("attention.mask")]


FAMILIES = (Family("gpt_neo", read, gpt_names(NORMS, _LAYERS), "GPTNeoForCausalLM", inert=INERT, ignored=(MASKS,), base=BASE),)
