"""GPT-NeoX (Pythia) and its Japanese sibling: part of each head rotated, queries, keys and values fused head by head."""

from __future__ import annotations

from functools import partial

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import GroupedRows, Names, Table, To, under
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import NORMS, QKV, joined
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    FeedForward,
    Projection,
    Rotary,
    Softmax,
    parallel,
    pre_norm,
)


def read(config: Config) -> Architecture:
    config.assume(hidden_size=6144, num_hidden_layers=44)
    norm, bias = words.layer_norm(config), words.biases(config, default=True)
    rate = config("attention_dropout", 0.0)
    attention = Attention(
        heads=config("num_attention_heads", 64),
        project=Projection(bias=bias),
        place=_rotary(config, 0.25),
        weigh=Softmax(dropout=rate),
    )
    network, dropout = words.plain(config, width=24576), config("hidden_dropout", 0.0, "attention.dropout")
    side_by_side = config("use_parallel_residual", True, words.in_parallel)
    wire = partial(parallel, shared_norm=False) if side_by_side else pre_norm
    layers = words.repeated(config, wire(norm, attention, network, dropout=dropout))
    return words.decoder(config, layers, norm, vocab=50432, around={"dropout": dropout})


def read_japanese(config: Config) -> Architecture:
    config.assume(hidden_size=2560, num_hidden_layers=32)
    norm, width, rate = words.layer_norm(config), config("hidden_size"), config("attention_dropout", 0.1)
    attention = Attention(heads=config("num_attention_heads", 32), place=_rotary(config, 1.0), weigh=Softmax(dropout=rate))
    times = config("intermediate_multiple_size", 4, lambda target: target("feedforward.width") // target.architecture.width)
    network = FeedForward(width=int(width * times), activation=words.activation(config, default="gelu"), gated=False)
    dropout = config("hidden_dropout", 0.0, "attention.dropout")
    # Only the last layer's attention has a bias, on its output.
    inner = pre_norm(norm, attention, network, dropout=dropout)
    last = pre_norm(norm, attention.but(bias=("output",)), network, dropout=dropout)
    layers = [*words.repeated(config, inner)[1:], ("last", last)]
    return words.decoder(config, layers, norm, tied=True, vocab=32000)


def _rotary(config: Config, share: float) -> Rotary:
    """Rotary positions by the keys of this family; `share`: of a head that rotates, where the key is absent."""
    base, share = config("rotary_emb_base", 10_000.0), config("rotary_pct", share)
    config.expect("rope_theta", base, why="rotary_emb_base is what counts")
    config.expect("partial_rotary_factor", share, why="rotary_pct is what counts")
    return words.rotary(config, theta=base, fraction=share)


_LAYER: Table = {"feedforward.up": "mlp.dense_h_to_4h", "feedforward.down": "mlp.dense_4h_to_h"}
_OUTPUT: Table = {"attention.output": "attention.dense"}
_ALONE: Table = {"attention.output.weight": "attention.dense.weight", "attention.output.bias": "attention.dense_bias"}


def _names(base: str, output: Table, architecture: Architecture) -> Names:
    fused = {QKV: To("attention.query_key_value", GroupedRows(Target(architecture)("attention.heads")))}
    outside = under(base, {"embedding": "embed_in", "decoder.final_norm": "final_layer_norm"})
    return Names({**outside, "head": "embed_out"}, {"decoder": (base + "layers.{i}.", joined(fused, NORMS, _LAYER, output))})


_INERT = ("is_decoder", "attention_probs_dropout_prob", "hidden_dropout_prob")
_IGNORED = (r"(.*\.)?layers\.\d+\.attention\.(bias|masked_bias)", r"embed_out\.weight")
FAMILIES = tuple(
    Family(
        model_type,
        reads,
        partial(_names, f"{model_type}.", output),
        f"{name}ForCausalLM",
        inert=_INERT,
        ignored=_IGNORED,
        base=f"{model_type}.",
    )
    for model_type, reads, output, name in (
        ("gpt_neox", read, _OUTPUT, "GPTNeoX"),
        ("gpt_neox_japanese", read_japanese, _ALONE, "GPTNeoXJapanese"),
    )
)
