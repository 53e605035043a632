"""Inkling 2 Mini (transformers 5.24): its middle layers are computed several times, with messages of the pass before."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.vocabulary import LAYERS
from anyformer.huggingface.words.inkling_line import INERT, STEPS, block_of, kinds_of, names, read_of, residuals
from anyformer.model import Architecture
from anyformer.parts import LoopedResiduals, MessageGate, Stack
from anyformer.parts.layers.order import write_order

KEYS = (
    ("loop_layer_index_start", "core_start", 6),
    ("loop_layer_index_end", "core_end", 18),
    ("loop_num_passes", "num_passes", 3),
    ("loop_gate_rank", "gate_rank", 64),
)
"""Key, what `loop_config` of published files calls it, and its usual value."""


def read_loop(config: Config) -> Architecture:
    """Inkling 2 Mini: `loop_config` of published files is a table of the four keys."""
    config.assume(hidden_size=2304, num_hidden_layers=24, moe_intermediate_size=1152)
    table = config("loop_config", None, nowhere) or {}
    for name, value in table.items():
        if name not in {short for _, short, _ in KEYS} or not LAYERS.fits(value):
            known = ", ".join(short for _, short, _ in KEYS)
            raise config.refused(f"loop_config.{name}", value, f"{LAYERS.words}, of one of {known}")
    first, last, passes, rank = (
        config(key, table.get(short, default), partial(_of_loop, key), kind=LAYERS) for key, short, default in KEYS
    )
    kinds = kinds_of(config)
    made = read_of(config, floor=8192, heads=24, experts=128, looped=range(first, last))
    stack, each, depth = made.output_stack, block_of(config), config("num_hidden_layers")
    if first % each or last % each or not 0 < first < last <= depth or passes < 2:
        raise HuggingFaceError(
            f"{config.where}: loop_layer_index_start = {first}, loop_layer_index_end = {last} and loop_num_passes = {passes} "
            f"should enclose whole blocks of {each} layers of {depth} (n_layers_per_attn_res_block), behind the first of them, "
            f"that are computed twice or more often"
        )
    blocks = [stack.variants[name] for name in stack.layers]
    inner = [f"looped_{i}" for i in range(first, last)]
    names = [*kinds[:first], *inner, *kinds[last:]]
    order = [*names[:first], *inner * passes, *names[last:]]
    streams = LoopedResiduals(
        **residuals(config), count=1 + 2 * (last - first) // each + first // each - (last - depth) // each,
        before=first // each, looped=(last - first) // each, passes=passes,
        gate=MessageGate(rank=rank, eps=words.rms_norm(config).eps),
    )  # fmt: skip
    looped = Stack(
        variants=Named(dict(zip(names, blocks, strict=True))),
        order=write_order(order),
        shared_weights=tuple(inner),
        input_norm=stack.input_norm,
        final_norm=stack.final_norm,
        streams=streams,
    )
    return made.but(decoder=looped)


def _of_loop(key: str, target: Target) -> Any:
    """What a key says of a loop."""
    streams = target.stack.streams
    if not isinstance(streams, LoopedResiduals):
        raise MismatchError("no layers are computed again, with messages of the pass before")
    each = streams.block // STEPS
    return {
        "loop_layer_index_start": streams.before * each,
        "loop_layer_index_end": (streams.before + streams.looped) * each,
        "loop_num_passes": streams.passes,
        "loop_gate_rank": streams.gate.rank,
    }[key]


FAMILIES = (Family("inkling2_loop_text", read_loop, names, "", inert=INERT),)
