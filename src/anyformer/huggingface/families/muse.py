"""Muse Glimmer's text model, which only this composite has: gated heads, norms on both sides, some layers without positions."""

from __future__ import annotations

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Table
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import AFTER, ATTENTION, BEFORE, FEEDFORWARD, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Branch, FeedForward, Gate, QKNorm, RMSNorm, Step


def read(config: Config) -> Architecture:
    config.assume(vocab_size=202_048, hidden_size=6656, intermediate_size=19_968, num_hidden_layers=52, num_attention_heads=32)
    config.assume(sliding_window=2048)
    final = words.rms_norm(config, 1e-5, cast="after_gain")
    before = final.but(gain="one_plus_weight")
    after = before.but(eps=config("post_norm_eps", 1e-8, "attention.norm_after.eps"))
    heads = words.attention(
        config,
        kv_heads=2,
        head_width=128,
        gate=Gate(),
        qk_norm=QKNorm(norm=final.but(gain="none")),
        rotary=words.rotary(config),
    )
    root = heads.width_of_head(config("hidden_size")) ** 0.5
    heads = heads.but(scale=config("qk_scale_factor", 3.87, lambda target: target("attention.scale") * root) / root)
    network = words.feedforward(config, "hidden_activation")
    depth = config("num_hidden_layers")
    kinds = words.windows(config, lambda i: SLIDING if (depth - 1 - i) % 4 else FULL)
    thetas = config("layer_rope_theta", None, _thetas) or [(depth - 1 - i) % 4 for i in range(depth)]
    turned = ["turned" if theta else "nope" for theta in thetas]

    def block(kind: str, turns: str) -> Block:
        own = heads.but(mask=words.mask(config, kind), rotary=heads.place.get("rotary") if turns == "turned" else None)
        return _block(before, after, own, network)

    return words.decoder(
        config,
        words.layered(block, kinds, turned),
        final,
        around={"input_norm": final.but(gain="none")},
        scale=config("output_multiplier", 0.19611613513818404, "head.scale"),
        softcap=config("final_logit_softcapping", 20.0),
    )


def _thetas(target: Target) -> list[float]:
    """The theta of each layer, of which the class asks no more than whether it is 0."""
    return [0.0 if rotary is None else rotary.theta for rotary in target.each("attention.rotary")]


def _block(before: RMSNorm, after: RMSNorm, *sublayers: Attention | FeedForward) -> Block:
    """Norms on both sides, each with an epsilon of its own."""
    branches = {each.kind: Branch(norm_before=before, sublayer=each, norm_after=after) for each in sublayers}
    return Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches.items()))


_GATE: Table = {"attention.gate.projection": "self_attn.gate_proj"}
FAMILIES = (Family("muse_glimmer_text", read, decoder_names(ATTENTION, FEEDFORWARD, BEFORE, AFTER, _GATE), ""),)
