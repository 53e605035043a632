"""Nemotron-H: each layer is one of Mamba-2, attention without positions, a network, or experts (arXiv 2504.03624).

The experts of Nemotron 3 Super and Ultra read a latent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Names, Stacked, To
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.names import decoder_names, projections
from anyformer.huggingface.words.state_space import KERNELS, LINEAR, MAMBA2, mamba2, mamba2_names
from anyformer.model import Architecture
from anyformer.parts import Experts, LatentExperts, pre_norm

_KINDS = {LINEAR: "mamba", "mamba": "mamba", FULL: "attention", "attention": "attention", "mlp": "dense", "moe": "experts"}
"""Type of layer -> our word."""
_BRANCHES = {MAMBA2: LINEAR, "attention": FULL, "feedforward": "mlp", "experts": "moe"}
_LETTERS = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}
"""What older files write for a type of layer, one letter for each."""
_KEYS = {
    "heads": "mamba_num_heads", "head_width": "mamba_head_dim", "state_width": "ssm_state_size", "groups": "n_groups",
    "kernel": "conv_kernel", "conv_bias": "use_conv_bias", "bias": "use_bias",
}  # fmt: skip
_ABSENT = {
    "heads": 128, "head_width": 64, "state_width": 128, "groups": 8, "kernel": 4, "conv_bias": True, "bias": False,
}  # fmt: skip
_ACTIVATION = "mlp_hidden_act"
_USUAL = ("linear_attention", "moe", "full_attention", "mlp")
"""The layers where nothing says them."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=131_072, hidden_size=4096)
    config.expect_all(num_nextn_predict_layers=0, sliding_window=None)
    config.put(num_hidden_layers=lambda target: target.depth())
    norm = words.rms_norm(config, 1e-5, "layer_norm_epsilon", cast="after_gain")
    biased = config("mlp_bias", False, _biased)
    parts: dict[str, Any] = {
        # transformers takes the least step of the initialisation for a limit, and not `time_step_limit`.
        "mamba": mamba2(
            config, eps=norm.eps, keys=_KEYS, absent=_ABSENT, activated="mamba_hidden_act",
            limits=(config("time_step_min", 0.001, f"{MAMBA2}.step_floor"), None),
        ),
        "attention": words.attention(config, heads=32, kv_heads=8, head_width=128, bias=()),
        "dense": words.plain(config, "relu2", _ACTIVATION, width=21504, bias=biased),
        "experts": _experts(config, biased),
    }  # fmt: skip
    layers = words.layered(lambda kind: pre_norm(norm, parts[kind]), [_KINDS[kind] for kind in _types(config)])
    return words.decoder(config, layers, norm)


def _types(config: Config) -> Sequence[str]:
    """The type of each layer, also by the letters of older files."""
    letters = config("hybrid_override_pattern", None, nowhere)
    given = [_LETTERS.get(letter, letter) for letter in letters or ()]
    named = config("layers_block_type", None, lambda target: target.branches(_BRANCHES))
    listed: Sequence[str] = config("layer_types", None, nowhere) or named or given or _USUAL  # the first replaces the others
    depth = config("num_hidden_layers", len(listed), nowhere)
    unknown = sorted(set(listed) - set(_KINDS))
    if unknown or not listed or len(listed) != depth:
        raise HuggingFaceError(
            f"{config.where}: layers_block_type has {len(listed)} entries for num_hidden_layers = {depth}"
            + (f", and {', '.join(unknown)} is not known here, only {', '.join(_KINDS)}" if unknown else "")
        )
    return listed


def _biased(target: Target) -> bool:
    return bool(target.get("feedforward.bias") or target.get("experts.shared.feedforward.bias"))


def _experts(config: Config, biased: bool) -> Experts:
    activation = words.activation(config, _ACTIVATION, "relu2")
    experts = words.experts(
        config, words.v3_router(config), count=8, chosen=2, width=7688, counted=("n_routed_experts", "num_local_experts"),
        gated=False, activation=activation,
    )  # fmt: skip
    width = config("moe_shared_expert_intermediate_size", 7688, "experts.shared.feedforward.width")
    shared = words.shared_expert(width, activation, gated=False, bias=("up", "down") if biased else ())
    latent = config("moe_latent_size", None, "experts.latent")
    if latent is None:
        return experts.but(shared=shared)
    return LatentExperts(**{**dict(experts), "kind": "latent_experts", "shared": shared}, latent=latent, latent_bias=biased)


_OUTSIDE = {"embedding": "backbone.embeddings", "decoder.final_norm": "backbone.norm_f", "head": "lm_head"}
_OWN = {
    **{f"{branch}.norm_before": "norm" for branch in _BRANCHES},
    **projections("mixer.*_proj"),
    **{f"feedforward.{side}": f"mixer.{side}_proj" for side in ("up", "down")},
    "experts.router": "mixer.gate",
    "experts.router.correction": "mixer.gate.e_score_correction_bias",
    **{f"experts.{side}": To(f"mixer.experts.{{x}}.{side}_proj.weight", Stacked()) for side in ("up", "down")},
    **{f"experts.shared.{side}": f"mixer.shared_experts.{side}_proj" for side in ("up", "down")},
    "experts.latent_in": "mixer.fc1_latent_proj",
    "experts.latent_out": "mixer.fc2_latent_proj",
}


def names(architecture: Architecture) -> Names:
    return decoder_names(_OWN, mamba2_names(architecture, "mixer"), outside=_OUTSIDE, prefix="backbone.layers.{i}.")


_INERT = (
    *KERNELS, "attention_bias", "expand", "hidden_dropout", "mamba_proj_bias", "moe_shared_expert_overlap",
    "mtp_hybrid_override_pattern", "mtp_layers_block_type", "n_shared_experts", "num_logits_to_keep",
    "rescale_prenorm_residual", "residual_in_fp32", "time_step_floor", "time_step_limit", "time_step_max",
)  # fmt: skip
FAMILIES = (Family("nemotron_h", read, names, "NemotronHForCausalLM", inert=_INERT, base="backbone."),)
