"""Mamba-2 alone: layers of one state-space mixer and no network (arXiv 2405.21060)."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.names import decoder_names
from anyformer.huggingface.words.state_space import KERNELS, MAMBA2, mamba2, mamba2_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm

_KEYS = {
    "heads": "num_heads", "head_width": "head_dim", "state_width": "state_size", "groups": "n_groups", "expand": "expand",
    "kernel": "conv_kernel", "conv_bias": "use_conv_bias", "bias": "use_bias",
}  # fmt: skip
_ABSENT = {
    "heads": 128, "head_width": 64, "state_width": 128, "groups": 8, "expand": 2, "kernel": 4, "conv_bias": True, "bias": False,
}  # fmt: skip


def read_2(config: Config) -> Architecture:
    config.assume(vocab_size=32_768, hidden_size=4096, num_hidden_layers=64, initializer_range=0.1)
    norm = words.rms_norm(config, 1e-5, "layer_norm_epsilon")
    mixer = mamba2(config, eps=norm.eps, keys=_KEYS, absent=_ABSENT)
    return words.decoder(config, words.repeated(config, pre_norm(norm, mixer)), norm, length=None)


_OUTSIDE: Table = {"embedding": "backbone.embeddings", "decoder.final_norm": "backbone.norm_f", "head": "lm_head"}
_LAYER = "backbone.layers.{i}."


def names_2(architecture: Architecture) -> Names:
    own = {f"{MAMBA2}.norm_before": "norm"}
    return decoder_names(own, mamba2_names(architecture, "mixer"), outside=_OUTSIDE, prefix=_LAYER)


_INERT = (
    *KERNELS, "layer_types", "rescale_prenorm_residual", "residual_in_fp32", "time_step_floor", "time_step_max",
    "time_step_min", "time_step_rank",
)  # fmt: skip
"""Keys of kernels and of initialisation; the stream is as wide in bits as the plan's activations."""
FAMILIES = (Family("mamba2", read_2, names_2, "Mamba2ForCausalLM", inert=_INERT),)
