"""OLMo: norms without a gain; OLMo 2: norms of what a branch gives, and of whole queries and keys; OLMo 3: windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.words.names import AFTER, ATTENTION, FEEDFORWARD, QK_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Block, LayerNorm, QKNorm, Rotary, output_norm, pre_norm


def read(config: Config) -> Architecture:
    norm = LayerNorm(eps=1e-5, gain="none", bias=False)
    heads = words.attention(config, rotary=words.rotary(config, rotate_in="fp32"), clip=config("clip_qkv", None))
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, words.feedforward(config))), norm)


def read2(config: Config) -> Architecture:
    rotary = words.rotary(config, rotate_in="fp32")
    return _output_normed(config, ["full"] * config("num_hidden_layers"), {"full": rotary})


def read3(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    seen = words.windows(config, words.every(4))
    # In files that spell it so, transformers 5 gives sliding layers its own default whatever is said here.
    config.expect("rope_theta", 500_000.0, why="spell rope_parameters by layer type")
    tables = words.tables_by_type(config, {FULL: 500_000.0, SLIDING: 500_000.0})
    rotary = {kind: words.from_table(table, unread=("truncate",), rotate_in="fp32") for kind, table in tables.items()}
    return _output_normed(config, seen, {"full": rotary[FULL], "local": rotary[SLIDING]})


def _output_normed(config: Config, seen: Sequence[str], rotary: Mapping[str, Rotary]) -> Architecture:
    norm, network = words.rms_norm(config, 1e-5, cast="after_gain"), words.feedforward(config)
    heads = words.attention(config, qk_norm=QKNorm(norm=norm, over="projection"))

    def block(kind: str) -> Block:
        return output_norm(norm, heads.but(mask=words.mask(config, kind), rotary=rotary[kind]), network)

    return words.decoder(config, words.layered(block, seen), norm)


_NAMES = decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, AFTER)
FAMILIES = (
    Family("olmo", read, decoder_names(ATTENTION, FEEDFORWARD), "OlmoForCausalLM"),
    Family("olmo2", read2, _NAMES, "Olmo2ForCausalLM"),
    Family("olmo3", read3, _NAMES, "Olmo3ForCausalLM"),
)
