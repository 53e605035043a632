"""SmolLM 3: Llama without rotary positions on some layers, and windows if asked for."""

from __future__ import annotations

from collections.abc import Sequence

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Block, pre_norm


def read(config: Config) -> Architecture:
    norm, turns = words.rms_norm(config), _turns(config)
    network = words.feedforward(config, bias=config("mlp_bias", False))
    heads = words.attention(config, kv_heads=4)
    placed = {"rotary": words.rotary(config, theta=2_000_000.0), "nope": None}
    # Windows, where they are used, are of the layers that do not rotate, unless the layers' types are given.
    used = config("use_sliding_window", False) and config("sliding_window", None) is not None
    kinds = words.windows(config, lambda i: SLIDING if used and turns[i] == "nope" else FULL)

    def block(kind: str, turn: str) -> Block:
        return pre_norm(norm, heads.but(mask=words.mask(config, kind), rotary=placed[turn]), network)

    return words.decoder(config, words.layered(block, kinds, turns), norm, tied=True)


def _turns(config: Config) -> list[str]:
    """Which layers rotate: those with a 1 in `no_rope_layers`, else all but every `no_rope_layer_interval`-th."""
    depth, interval = config("num_hidden_layers"), config("no_rope_layer_interval", 4, kind=SIZE)
    turns: Sequence[int] | None = config("no_rope_layers", None)
    turns = [(layer + 1) % interval for layer in range(depth)] if turns is None else turns
    if len(turns) < depth:
        raise HuggingFaceError(f"{config.where}: no_rope_layers has {len(turns)} entries for {depth} layers")
    return ["rotary" if turn else "nope" for turn in turns[:depth]]


FAMILIES = (
    Family("smollm3", read, decoder_names(ATTENTION, FEEDFORWARD, NORMS), "SmolLM3ForCausalLM", inert=("max_window_layers",)),
)
