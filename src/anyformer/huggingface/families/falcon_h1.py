"""Falcon-H1: Mamba-2 beside attention in every layer, with muP's factors as numbers (arXiv 2507.22448)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import has_part, score_scale
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.names import ATTENTION, OUTSIDE, SHARED_NORM, decoder_names, gated_names
from anyformer.huggingface.words.state_space import HYBRID, HYBRID_KEYS, KERNELS, MAMBA2, mamba2, mamba2_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Branch, FeedForward, Mamba2, Multipliers, RMSNorm, Step
from anyformer.parts.recurrence.mamba2 import PROJECTIONS

_KEYS = {name: key for name, key in HYBRID_KEYS.items() if name not in ("expand", "bias")}
_ABSENT = {**HYBRID, "head_width": "auto"}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=128_000, hidden_size=4096, num_hidden_layers=32)
    norm = words.rms_norm(config, 1e-5)
    mixer, (heads, of_heads), (network, of_network) = _mixer(config, norm), _heads(config), _network(config)
    side = {
        MAMBA2: Branch(sublayer=mixer, multiplier=config("ssm_out_multiplier", 1.0, f"{MAMBA2}.multiplier")),
        "attention": Branch(sublayer=heads, multiplier=of_heads),
    }
    after = Branch(norm_before=norm, sublayer=network, multiplier=of_network)
    block = Block(steps=(Step(norm_before=norm, branches=Named(side)), Step(branches=Named(feedforward=after))))
    scales: dict[str, Any] = {
        "embedding_scale": float(config("embedding_multiplier", 1.0)),
        "scale": float(config("lm_head_multiplier", 1.0, "head.scale")),
    }
    return words.decoder(config, words.repeated(config, block), norm, **scales)


def _mixer(config: Config, norm: RMSNorm) -> Mamba2:
    inner = config("mamba_d_ssm", 1024, lambda target: target(f"{MAMBA2}.heads") * target(f"{MAMBA2}.head_width"))
    if inner is None:
        inner = int(config("mamba_expand", 2, nowhere) * config("hidden_size"))
    into = config("mamba_proj_bias", False, lambda target: "gate" in target(f"{MAMBA2}.bias"))
    out = config("projectors_bias", False, lambda target: "output" in target(f"{MAMBA2}.bias"))
    first = config("mamba_norm_before_gate", True, lambda target: target(f"{MAMBA2}.gate_at") == "after_norm")
    fields: dict[str, Any] = {
        "bias": (*(PROJECTIONS[:-1] if into else ()), *(("output",) if out else ())),
        "multipliers": _multipliers(config, biased=into),
    }
    if not config("mamba_rms_norm", False, has_part(f"{MAMBA2}.norm")):
        fields["norm"] = None
    elif first:
        fields["gate_at"] = "after_norm"
    return mamba2(config, eps=norm.eps, keys=_KEYS, absent=_ABSENT, inner=inner, **fields)


def _multipliers(config: Config, *, biased: bool) -> Multipliers | None:
    """Of each projection: its own times that of their input, which only the own one may stand for."""
    own = config("ssm_multipliers", None, _own_multipliers)
    common = config("ssm_in_multiplier", 1.0, nowhere)
    if biased and common != 1:
        raise HuggingFaceError(f"{config.where}: ssm_in_multiplier = {common:g} beside mamba_proj_bias is not described")
    factors = [common * factor for factor in _of_length(config, "ssm_multipliers", own, 5)]
    if all(factor == 1 for factor in factors):
        return None
    return Multipliers(**dict(zip(PROJECTIONS[:-1], factors, strict=True)))


def _own_multipliers(target: Target) -> list[float]:
    given: Multipliers | None = target(f"{MAMBA2}.multipliers")
    if given is None:
        raise MismatchError("Mamba-2 has no factors")
    return [given.by_name[name] for name in PROJECTIONS[:-1]]


def _heads(config: Config) -> tuple[Attention, float]:
    """Attention and the factor of its branch: a factor of its input is one of scores, squared, and of values."""
    heads = words.attention(config, heads=32, kv_heads=8, rotary=words.rotary(config))
    width, common = heads.head_width or config("hidden_size") // heads.heads, config("attention_in_multiplier", 1.0, nowhere)
    factor = common**2 * config("key_multiplier", 1.0, lambda target: _factor(score_scale(target), _scaled(target)))
    if heads.project.bias and common != 1:
        raise HuggingFaceError(f"{config.where}: attention_in_multiplier = {common:g} beside attention_bias is not described")
    scale = None if factor == 1 else factor * width**-0.5
    return heads.but(scale=scale), common * config("attention_out_multiplier", 1.0, "attention.multiplier")


def _scaled(target: Target) -> Callable[[float], float]:
    """The scale of scores that a factor of keys makes."""
    width = target("attention.head_width") or target.architecture.width // target("attention.heads")
    return lambda factor: factor * float(width) ** -0.5


def _factor(scale: float, scaled: Callable[[float], float]) -> float:
    """The shortest number that makes the scale."""
    exact = scale / scaled(1.0)
    shorter = (float(f"{exact:.{digits}g}") for digits in range(1, 18))
    return next((factor for factor in shorter if scaled(factor) == scale), exact)


def _network(config: Config) -> tuple[FeedForward, float]:
    """The network and the factor of its branch."""
    given = config("mlp_multipliers", None, lambda target: [target(f"feedforward.{factor}") for factor in _FACTORS])
    gate, down = _of_length(config, "mlp_multipliers", given, 2)
    return words.feedforward(config, width=14_336, bias=config("mlp_bias", False), gate_multiplier=gate), down


_FACTORS = ("gate_multiplier", "multiplier")


def _of_length(config: Config, key: str, given: Iterable[float] | None, count: int) -> list[float]:
    factors = [1.0] * count if given is None else [float(factor) for factor in given]
    if len(factors) != count:
        raise HuggingFaceError(f"{config.where}: {key} should have {count} numbers, got {len(factors)}")
    return factors


_OWN = {"feedforward.norm_before": "pre_ff_layernorm"}
_OUTSIDE = {**OUTSIDE, "decoder.final_norm": "model.final_layernorm"}


def names(architecture: Architecture) -> Names:
    mixer = mamba2_names(architecture, "mamba")
    return decoder_names(ATTENTION, mixer, gated_names("feed_forward"), SHARED_NORM, _OWN, outside=_OUTSIDE)


_INERT = (*KERNELS, "layer_types", "layers_block_type", "mamba_expand", "num_logits_to_keep")
FAMILIES = (Family("falcon_h1", read, names, "FalconH1ForCausalLM", inert=_INERT),)
