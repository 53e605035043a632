"""xLSTM: mLSTM layers with capped gates, a network after each (arXiv 2503.13427)."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import biased
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.names import decoder_names
from anyformer.model import Architecture
from anyformer.parts import MLSTM, FeedForward, GroupedLayerNorm, pre_norm
from anyformer.parts.recurrence.mlstm import PROJECTIONS

_MIXER = "mlstm"
_VANISHES = 1e-6
"""What the class adds to the normaliser by default, too little to matter."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=50_304, hidden_size=4096, num_hidden_layers=32, norm_eps=1e-6)
    config.expect("weight_mode", "single", why="weights of projections that are one matrix are not read")
    config.expect("inference_state_dtype", "float32")
    if (added := config("eps", _VANISHES, nowhere)) > _VANISHES:
        raise config.refused("eps", added, f"at most {_VANISHES}: here none is added to the normaliser")
    for older, key in (("num_blocks", "num_hidden_layers"), ("embedding_dim", "hidden_size")):
        config.expect(older, config(key), None, why=f"it is another name of {key}")
    bias = config("use_bias", False, biased(_MIXER))
    norm = words.rms_norm(config, 1e-6, "norm_eps")
    before = norm.but(bias=bias)
    block = pre_norm(before, _mixer(config, norm.eps, bias=bias), _network(config, bias=bias))
    softcap = config("output_logit_soft_cap", 30.0, "head.softcap")
    return words.decoder(config, words.repeated(config, block), norm, length=None, softcap=softcap)


def _mixer(config: Config, eps: float, *, bias: bool) -> MLSTM:
    heads, width = config("num_heads", 8, f"{_MIXER}.heads"), config("hidden_size")
    keys, values = (
        int(width * config(f"{side}_dim_factor", usual, lambda target, name=name: _factor(target, name))) // heads
        for side, name, usual in (("qk", "key_width", 0.5), ("v", "value_width", 1.0))
    )
    return MLSTM(
        heads=heads,
        key_width=keys,
        value_width=values,
        gate_cap=config("gate_soft_cap", 15.0, f"{_MIXER}.gate_cap"),
        norm=GroupedLayerNorm(groups=heads, eps=eps, bias=bias, cast="before_gain"),
        bias=PROJECTIONS if bias else (),
    )


def _factor(target: Target, name: str) -> float:
    """The features of all heads in widths of the stream, so that the product, cut to a whole number, is theirs."""
    features, width = target(f"{_MIXER}.heads") * target(f"{_MIXER}.{name}"), target.architecture.width
    exact = features / width
    return float(exact if int(width * exact) == features else (features + 0.5) / width)


def _network(config: Config, *, bias: bool) -> FeedForward:
    """The network, its width a factor of the stream's, rounded up to a multiple; written as one multiple."""
    factor = config("ffn_proj_factor", 2.667, lambda target: target("feedforward.width") / target.architecture.width)
    multiple = config("ffn_round_up_to_multiple_of", 64, "feedforward.width")
    width = int((config("hidden_size") * factor + multiple - 1) // multiple * multiple)
    return FeedForward(width=width, activation="silu", gated=True, bias=("gate", "up", "down") if bias else ())


_LAYER: Table = {
    f"{_MIXER}.norm_before": "norm_mlstm",
    f"{_MIXER}.query": "mlstm_layer.q",
    f"{_MIXER}.key": "mlstm_layer.k",
    f"{_MIXER}.value": "mlstm_layer.v",
    f"{_MIXER}.gate": "mlstm_layer.ogate_preact",
    f"{_MIXER}.input_gate": "mlstm_layer.igate_preact",
    f"{_MIXER}.forget_gate": "mlstm_layer.fgate_preact",
    f"{_MIXER}.norm": "mlstm_layer.multihead_norm",
    f"{_MIXER}.output": "mlstm_layer.out_proj",
    "feedforward.norm_before": "norm_ffn",
    "feedforward.gate": "ffn.proj_up_gate",
    "feedforward.up": "ffn.proj_up",
    "feedforward.down": "ffn.proj_down",
}
_OUTSIDE: Table = {"embedding": "backbone.embeddings", "decoder.final_norm": "backbone.out_norm", "head": "lm_head"}


def names(architecture: Architecture) -> Names:
    return decoder_names(_LAYER, outside=_OUTSIDE, prefix="backbone.blocks.{i}.")


# The class computes `out_norm` whatever `add_out_norm` says.
_INERT = (
    "add_out_norm", "autocast_kernel_dtype", "chunk_size", "chunkwise_kernel", "max_inference_chunksize", "mode",
    "norm_reduction_force_float32", "return_last_states", "sequence_kernel", "step_kernel",
)  # fmt: skip
FAMILIES = (Family("xlstm", read, names, "xLSTMForCausalLM", inert=_INERT, base="backbone."),)
