"""Mamba (arXiv 2312.00752), Falcon Mamba (2410.05355) and Mamba-2 (2405.21060): one state-space mixer a layer, no network."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.names import decoder_names
from anyformer.huggingface.words.state_space import KERNELS, MAMBA, MAMBA2, mamba, mamba2, mamba2_names, mamba_names
from anyformer.model import Architecture
from anyformer.parts import RMSNorm, pre_norm

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


def read_1(config: Config) -> Architecture:
    return _selective(config, None)


def read_falcon(config: Config) -> Architecture:
    eps = config("mixer_rms_eps", 1e-6, f"{MAMBA}.inner_norm.eps")
    return _selective(config, RMSNorm(eps=eps, gain="none"))


def _selective(config: Config, inner_norm: RMSNorm | None) -> Architecture:
    config.assume(vocab_size=50_280, hidden_size=768, num_hidden_layers=32, initializer_range=0.1, tie_word_embeddings=True)
    norm = words.rms_norm(config, 1e-5, "layer_norm_epsilon")
    keys = {"state_width": "state_size", "expand": "expand", "kernel": "conv_kernel"}
    biased = ("use_bias", "use_conv_bias")
    mixer = mamba(config, keys=keys, rank_key="time_step_rank", biased=biased, inner_norm=inner_norm)
    config.expect("intermediate_size", None, mixer.channels)
    return words.decoder(config, words.repeated(config, pre_norm(norm, mixer)), norm, length=None)


_OUTSIDE: Table = {"embedding": "backbone.embeddings", "decoder.final_norm": "backbone.norm_f", "head": "lm_head"}
_LAYER = "backbone.layers.{i}."


def names_1(architecture: Architecture) -> Names:
    own = {f"{MAMBA}.norm_before": "norm"}
    return decoder_names(own, mamba_names(architecture, "mixer"), outside=_OUTSIDE, prefix=_LAYER)


def names_2(architecture: Architecture) -> Names:
    own = {f"{MAMBA2}.norm_before": "norm"}
    return decoder_names(own, mamba2_names(architecture, "mixer"), outside=_OUTSIDE, prefix=_LAYER)


_INERT = (
    *KERNELS, "layer_types", "rescale_prenorm_residual", "residual_in_fp32", "time_step_floor",
    "time_step_init_scheme", "time_step_max",    "time_step_min", "time_step_scale",
)  # fmt: skip
"""Keys of kernels and of initialisation; the stream is as wide in bits as the plan's activations."""
FAMILIES = (
    Family("mamba", read_1, names_1, "MambaForCausalLM", inert=_INERT, base="backbone."),
    Family("falcon_mamba", read_falcon, names_1, "FalconMambaForCausalLM", inert=_INERT, base="backbone."),
    Family("mamba2", read_2, names_2, "Mamba2ForCausalLM", inert=(*_INERT, "time_step_rank"), base="backbone."),
)
