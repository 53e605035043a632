"""MiniMax-Text-01: lightning attention whose decay slows from layer to layer, softmax attention, experts."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import GroupedRows, Names, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import ATTENTION, NUMBERED, decoder_names
from anyformer.huggingface.words.rounded import tell_of_rounding
from anyformer.model import Architecture
from anyformer.parts import Block, Branch, Gate, LightningAttention, RMSNorm, Router, Step

_FACTORS = {"lightning": "linear_attn", "attention": "full_attn", "experts": "mlp"}
"""Branch -> the beginning of the keys of its factors: alpha of the residual, beta of the branch."""
_TABLE: Table = {
    "lightning.norm": "self_attn.norm",
    "lightning.gate.projection": "self_attn.output_gate",
    "lightning.output": "self_attn.out_proj",
    "step_0_norm_before": "input_layernorm",
    "step_1_norm_before": "post_attention_layernorm",
}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=4096, num_hidden_layers=32)
    config.expect("router_jitter_noise", 0.0, why="its noise reaches the experts too")
    tell_of_rounding(config, "the decays of linear attention")
    norm = words.rms_norm(config, 1e-5)
    factors = {branch: _factors(config, branch) for branch in _FACTORS}
    config.expect("partial_rotary_factor", 1.0, None, why="transformers rotates whole heads")
    rotary, mask = words.rotary(config, theta=1e6), words.mask_of_all(config)
    softmax = words.attention(config, heads=32, kv_heads=8, bias=(), mask=mask, rotary=rotary)
    act = words.activation(config, at="lightning.activation")
    heads, width = softmax.heads, softmax.head_width
    lightning = LightningAttention(
        heads=heads, head_width=width, decay="by_layer", activation=act, norm=RMSNorm(eps=1e-6), gate=Gate()
    )
    keys: dict[str, Any] = {"counted": ("num_local_experts", "num_experts"), "size": "intermediate_size"}
    experts = words.experts(config, Router(renormalise=words.EXACT), count=8, chosen=2, width=14336, **keys)

    def step(name: str, sublayer: Any) -> Step:
        alpha, beta = factors[name]
        branch = Branch(sublayer=sublayer, multiplier=beta)
        return Step(norm_before=norm, branches=Named({name: branch}), residual="normed", residual_scale=alpha)

    def block(name: str) -> Block:
        """The block; `name`: `softmax` or `lightning`."""
        mixer = step("lightning", lightning) if name == "lightning" else step("attention", softmax)
        return Block(steps=(mixer, step("experts", experts)))

    branches = {"lightning": "linear_attention", "attention": FULL}
    mixers = words.mixers(config, lambda i: "linear_attention" if i % 2 else FULL, branches)
    names = ["lightning" if mixer == "linear" else "softmax" for mixer in mixers]
    return words.decoder(config, words.layered(block, names), norm)


def _factors(config: Config, branch: str) -> tuple[float, float]:
    """The factors of the residual and of the branch."""

    def alpha(target: Target) -> float:
        for block in target.blocks:
            for step in block.steps:
                if branch in step.branches:
                    if isinstance(step.residual_scale, str):
                        raise MismatchError(f"the residual of {branch!r} is scaled by layer, and here by one number for all")
                    return step.residual_scale
        raise MismatchError(f"no layer has a branch {branch!r}")

    word = _FACTORS[branch]
    scale = config(f"{word}_alpha_factor", 1, alpha)
    return float(scale), float(config(f"{word}_beta_factor", 1, f"{branch}.multiplier"))


def names(architecture: Architecture) -> Names:
    """Names of the weights; queries, keys and values of lightning attention are fused head by head."""
    sides = tuple(f"lightning.{side}" for side in ("query", "key", "value"))
    fused = {sides: To("self_attn.qkv_proj", GroupedRows(Target(architecture).get("lightning.heads", 1)))}
    return decoder_names(ATTENTION, _TABLE, fused, NUMBERED)


FAMILIES = (
    Family(
        "minimax",
        read,
        names,
        "MiniMaxForCausalLM",
        inert=("block_size",),
        ignored=(r".*self_attn\.(slope_rate|query_decay|key_decay|diagonal_decay)",),
    ),
)
