"""SmolLM 3: Llama without rotary positions in some layers, and optional windows."""

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
    norm, positions = words.rms_norm(config), _positions(config)
    network = words.feedforward(config, bias=config("mlp_bias", False))
    heads = words.attention(config, kv_heads=4)
    rotary = {"rotary": words.rotary(config, theta=2_000_000.0), "nope": None}
    # By default the layers without rotary positions have the windows, if a flag asks for any.
    used = config("use_sliding_window", False) and config("sliding_window", None) is not None
    kinds = words.windows(config, lambda i: SLIDING if used and positions[i] == "nope" else FULL)

    def block(kind: str, position: str) -> Block:
        return pre_norm(norm, heads.but(mask=words.mask(config, kind), rotary=rotary[position]), network)

    return words.decoder(config, words.layered(block, kinds, positions), norm, tied=True)


def _positions(config: Config) -> list[str]:
    """`rotary` or `nope` for every layer: by `no_rope_layers`, else `nope` at every `no_rope_layer_interval`-th."""
    depth, interval = config("num_hidden_layers"), config("no_rope_layer_interval", 4, kind=SIZE)
    rotates: Sequence[int] | None = config("no_rope_layers", None)
    rotates = [(layer + 1) % interval for layer in range(depth)] if rotates is None else rotates
    if len(rotates) < depth:
        raise HuggingFaceError(f"{config.where}: no_rope_layers has {len(rotates)} entries for {depth} layers")
    return ["rotary" if rotate else "nope" for rotate in rotates[:depth]]


FAMILIES = (
    Family("smollm3", read, decoder_names(ATTENTION, FEEDFORWARD, NORMS), "SmolLM3ForCausalLM", inert=("max_window_layers",)),
)
