"""Nemotron-NAS (DeciLM): Llama whose layers differ in heads of keys and in width, or have no attention or no network at all.

Keys and names are facts of the published files, of which the code is never run; vLLM reads the same ones in
vllm/model_executor/models/nemotron_nas.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Block, pre_norm

_STEP = 256
"""Networks are as wide as 2/3 of `ffn_mult` widths, rounded up to a multiple of it."""
_ATTENTION = frozenset({"n_heads_in_group", "no_op"})
_NETWORK = frozenset({"ffn_mult", "no_op"})
_OFF = (None, False, 0)


def read(config: Config) -> Architecture:
    norm, depth = words.rms_norm(config), config("num_hidden_layers")
    config.expect_all(intermediate_size=None, num_key_value_heads=None, mlp_bias=False)
    heads = words.attention(config, rotary=words.rotary(config))
    network = words.feedforward(config, size=None, width=_STEP)
    listed = config("block_configs")
    if not isinstance(listed, list) or len(listed) != depth:
        raise HuggingFaceError(f"{config.where}: block_configs should be a list of {depth} tables, one per layer")
    blocks: dict[str, Block] = {}
    layers = []
    for number, each in enumerate(listed):
        attends, feeds = (_table(config, each, number, name, known) for name, known in _PARTS.items())
        sublayers: list[Any] = []
        if not attends.get("no_op"):
            group = attends.get("n_heads_in_group")
            if type(group) is not int or group < 1 or heads.heads % group:
                raise config.refused(f"block_configs.{number}.attention.n_heads_in_group", group, "a divisor of the heads")
            sublayers.append(heads.but(kv_heads=heads.heads // group))
        if not feeds.get("no_op"):
            times: Any = feeds.get("ffn_mult")
            if type(times) not in (int, float) or not 0 < times < 1000:
                raise config.refused(f"block_configs.{number}.ffn.ffn_mult", times, "a number above 0")
            width = int(2 * times * config("hidden_size") / 3)
            sublayers.append(network.but(width=-(-width // _STEP) * _STEP))
        if not sublayers:
            raise HuggingFaceError(f"{config.where}: layer {number} has neither attention nor a network")
        block = pre_norm(norm, *sublayers)
        name = next((known for known, same in blocks.items() if same == block), f"layer{len(blocks)}")
        blocks[name] = block
        layers.append((name, block))
    return words.decoder(config, layers, norm)


def _table(config: Config, block: Any, number: int, name: str, known: frozenset[str]) -> Mapping[str, Any]:
    """The table of one part of a layer; a key that is on and not known is refused."""
    table = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(table, Mapping):
        raise config.refused(f"block_configs.{number}.{name}", table, "a table")
    for key, value in table.items():
        if key not in known and value not in _OFF and not (key == "gated" and value is True):
            raise HuggingFaceError(
                f"{config.where}: block_configs.{number}.{name}.{key} = {value} is not described here (layers of attention or "
                f"of a network, or without them, are)"
            )
    return table


_PARTS = {"attention": _ATTENTION, "ffn": _NETWORK}
FAMILIES = (
    Family(
        "nemotron-nas",
        read,
        decoder_names(ATTENTION, FEEDFORWARD, NORMS),
        "DeciLMForCausalLM",
        ignored=(r".*\.rotary_emb\.inv_freq",),
    ),
)
