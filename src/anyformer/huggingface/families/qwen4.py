"""Qwen4-Exp's language model: Qwen3.5's mixers and experts between several streams, and keys by blocks that an indexer chooses.

Its embeddings in single layers (`ple_layer_ids`) are refused: with several streams they have a key for each (`Engram` has one).
"""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.words import DELTA
from anyformer.huggingface.words.activations import known, named
from anyformer.huggingface.words.layers import types
from anyformer.huggingface.words.names import OUTSIDE, decoder_names
from anyformer.huggingface.words.qwen_line import gated_attention, gated_experts, layer_names, separate
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Branch, Gate, LowRankConnections, PooledIndexer, RMSNorm, Rotary, Step, residual
from anyformer.parts.sublayer import Sublayer

INDEXED = "indexed_attention"
_MIXERS = {"linear_attention": "linear", INDEXED: "full", FULL: "full"}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=248_320, hidden_size=2048, num_hidden_layers=40)
    config.expect("ple_layer_ids", None, [], why="a memory of n-grams with a key for each stream is not known here")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6, "stack.streams.eps"), gain="one_plus_weight", cast="after_gain")
    attention = gated_attention(config, norm, kv_heads=2, share=1.0)
    linear = words.gated_delta_net(config, eps=norm.eps).but(gate=Gate(activation=_output_gate(config)))
    parts: dict[str, Any] = {"full": _indexed(config, attention, norm), "linear": linear}
    renormalises = config("norm_topk_prob", True)
    experts = gated_experts(config, count=512, chosen=10, renormalises=renormalises)
    interval, branches = config("full_attention_interval", 4), {DELTA: "linear_attention", "attention": INDEXED}
    mixers = types(
        config,
        lambda i: "linear_attention" if (i + 1) % interval else INDEXED,
        known=_MIXERS,
        at=lambda target: target.branches(dict(branches)),
    )
    layers = words.layered(lambda mixer: _wire(parts[mixer], experts), mixers)
    streams = LowRankConnections(
        count=config("hc_count", 4, "stack.streams.count"), rank=config("hc_lowrank", 320, "stack.streams.rank"), eps=norm.eps
    )
    return words.decoder(config, layers, None, around={"streams": streams})


def _wire(mixer: Sublayer, network: Sublayer) -> Block:
    """Branches without norms; layers whose keys are chosen have the usual name for their attention."""
    name = DELTA if mixer.called == DELTA else "attention"
    first = Step(branches=Named({name: Branch(sublayer=mixer)}))
    return Block(steps=(first, *residual(network).steps))


def _output_gate(config: Config) -> str:
    """The gate behind delta nets: the network's activation where no key says another."""
    given = config("output_gate_type", None, lambda target: named(target(f"{DELTA}.gate.activation"), "silu"))
    return known(given) if given else words.activation(config)


def _indexed(config: Config, attention: Attention, norm: RMSNorm) -> Attention:
    """The attention, over the blocks that an indexer of its own chooses."""
    config.put(indexer_kv_heads=1)
    config.expect("indexer_kv_heads", 1)
    size = config("indexer_compress_ratio", at=f"{_CHOICE}.block")
    width = config("indexer_head_dim", at=f"{_CHOICE}.head_width")
    budget = config("indexer_budget", at=lambda target: target(f"{_CHOICE}.keep") * target(f"{_CHOICE}.block"))
    choice = PooledIndexer(
        block=size,
        keep=budget // size,
        heads=config("indexer_n_heads", at=f"{_CHOICE}.heads"),
        head_width=width,
        norm=norm,
        rotary=_as_many(attention, config("hidden_size"), width),
    )
    return attention.but(choice=choice)


_CHOICE = "attention.sublayer.score.choice"


def _as_many(attention: Attention, width: int, head_width: int) -> Rotary:
    """The attention's rotation of as many features of heads of another width."""
    rotary = next((part for part in attention.place.values()), None)
    assert isinstance(rotary, Rotary), "as it is read"
    return rotary.but(fraction=rotary.rotated(attention.width_of_head(width)) / head_width)


_WEIGHTS = {"gain": "hc_norm.weight", "down": "input_mix_weight_down", "up": "input_mix_weight_up"}
_STREAMS: Table = {
    f"step_{step}_streams.{ours}": f"{name}_hyper_connection.{theirs}"
    for step, name in enumerate(("attn", "mlp"))
    for ours, theirs in {**_WEIGHTS, "write": "block_inject_weight"}.items()
}
_INDEXER: Table = {
    ("attention.choice.query", "attention.choice.key"): To("self_attn.indexer.index_qk_proj", Rows()),
    "attention.choice.query_norm": "self_attn.indexer.q_layernorm",
    "attention.choice.key_norm": "self_attn.indexer.k_layernorm",
}
_OUTSIDE: Table = {
    **OUTSIDE,
    **{f"decoder.streams.leave.{ours}": f"model.hyper_connection_mixer.{theirs}" for ours, theirs in _WEIGHTS.items()},
}


def names(architecture: Architecture) -> Names:
    return decoder_names(layer_names(separate, architecture), _STREAMS, _INDEXER, outside=_OUTSIDE)


_INERT = (
    "heads_per_ngram", "make_ngram_vocab_size_divisible_by", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings",
    "ngram_size", "ngram_vocab_size_base", "number_of_conv_states",
    "ple_conv_kernel_size", "ple_embed_dim", "seed", "split_ngram_parts",
)  # fmt: skip
"""Keys of embeddings in single layers, where there are none, and of a module for later tokens that its class does not have."""
FAMILIES = (Family("qwen4_exp_text", read, names, "Qwen4ExpForCausalLM", inert=_INERT, ignored=(r"mtp\..*",)),)
