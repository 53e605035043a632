"""Muse Glimmer's and Muse Spark's text models: gated heads, norms on both sides, some layers without positions.

Spark has experts of a latent, and residuals of which every feature keeps a learned share. The class looks up the table's first
row for tokens that mark images, videos or sounds, which a text alone has none of; here they are rows like all others.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Shaped, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.layers import Layers
from anyformer.huggingface.words.names import (
    AFTER,
    ATTENTION,
    BEFORE,
    CORRECTION,
    FEEDFORWARD,
    ROUTED,
    decoder_names,
)
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    GainedFirst,
    Gate,
    GatedResidual,
    LatentExperts,
    MixedNorm,
    QKNorm,
    Renormalise,
    RMSNorm,
    Step,
)
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sublayer import Sublayer


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
    heads = _scaled(config, heads, 3.87)
    network = words.feedforward(config, "hidden_activation")

    def block(kind: str, turns: str) -> Block:
        return _block(
            {"attention": (before, after), "feedforward": (before, after)}, _turned(config, heads, kind, turns), network
        )

    return _decoder(config, words.layered(block, *_kinds(config)), final, scale=0.19611613513818404)


def read_spark(config: Config) -> Architecture:
    config.assume(vocab_size=202_048, hidden_size=8192, intermediate_size=16_384, num_hidden_layers=62, sliding_window=2048)
    final = words.rms_norm(config, 1e-5, cast="after_gain")
    before, bare = final.but(gain="one_plus_weight"), final.but(gain="none")
    eps = config("post_norm_eps", 1e-8, "attention.norm_after.eps")
    heads = words.attention(
        config,
        heads=128,
        kv_heads=16,
        head_width=64,
        gate=Gate(),
        qk_norm=QKNorm(norm=bare),
        mixed_norm=MixedNorm(norm=bare),
        rotary=words.rotary_or(config, {"rope_type": "default", "rope_theta": 500_000.0}, theta=10_000.0),
    )
    heads = _scaled(config, heads, 5.4730064863875)
    after = {"attention": (before, bare.but(eps=eps)), "feedforward": (before, GainedFirst(eps=eps, first="one_plus_weight"))}
    dense = words.feedforward(config)
    experts = _experts(config, dense.activation, before, GainedFirst(eps=eps, first="one_plus_weight"))
    networks = words.types(config, lambda _: "sparse", "mlp_layer_types", {"sparse": "experts", "dense": "dense"})

    def block(kind: str, turns: str, network: str) -> Block:
        attention = _turned(config, heads, kind, turns)
        return _block(after, attention, experts if network == "experts" else dense)

    made = _decoder(config, words.layered(block, *_kinds(config), networks), final, scale=0.1767766952966369)
    temperature = config("residual_gate_temperature", 0.3, "stack.streams.temperature")
    assert made.decoder is not None, "a decoder"
    return made.but(decoder=made.decoder.but(streams=GatedResidual(temperature=temperature)))


def _experts(config: Config, activation: str, before: RMSNorm, after: GainedFirst) -> LatentExperts:
    """256 experts of a latent, whose router's logits are multiplied as those of the head are."""
    router = words.sigmoid_router(
        config, renormalise=Renormalise(eps=1e-15), multiplier=config("output_multiplier", 0.1767766952966369, "head.scale")
    )
    made = words.experts(
        config,
        router,
        count=256,
        chosen=8,
        width=4096,
        counted=("num_local_experts", "n_routed_experts"),
        activation=activation,
    )
    latent = config("moe_hidden_size", 4096, "experts.latent")
    return LatentExperts(**{**dict(made), "kind": "latent_experts", "norm": before}, latent=latent, output_norm=after)


def _scaled(config: Config, heads: Attention, usual: float) -> Attention:
    """Attention with its factor of scores, `qk_scale_factor` / sqrt(E)."""
    root = heads.width_of_head(config("hidden_size")) ** 0.5
    return heads.but(scale=config("qk_scale_factor", usual, lambda target: target("attention.scale") * root) / root)


def _turned(config: Config, heads: Attention, kind: str, turns: str) -> Attention:
    """The attention of a layer, by its mask and whether it is rotated."""
    return heads.but(mask=words.mask(config, kind), rotary=heads.place.get("rotary") if turns == "turned" else None)


def _kinds(config: Config) -> tuple[list[str], list[str]]:
    """The mask of every layer, and whether it is rotated."""
    depth = config("num_hidden_layers")
    kinds = words.windows(config, lambda i: SLIDING if (depth - 1 - i) % 4 else FULL)
    thetas = config("layer_rope_theta", None, _thetas) or [(depth - 1 - i) % 4 for i in range(depth)]
    return kinds, ["turned" if theta else "nope" for theta in thetas]


def _decoder(config: Config, layers: Layers, final: RMSNorm, *, scale: float) -> Architecture:
    """The model of these layers, its embeddings normed; `scale`: of the logits, where the key is absent."""
    return words.decoder(
        config,
        layers,
        final,
        around={"input_norm": final.but(gain="none")},
        scale=config("output_multiplier", scale, "head.scale"),
        softcap=config("final_logit_softcapping", 20.0),
    )


def _thetas(target: Target) -> list[float]:
    """The theta of each layer, of which the class asks no more than whether it is 0."""
    return [0.0 if rotary is None else rotary.theta for rotary in target.each("attention.rotary")]


def _block(norms: Mapping[str, tuple[Norm, Norm]], attention: Attention, network: Sublayer) -> Block:
    """Norms on both sides, each with an epsilon of its own; `norms`: of attention and of the network."""
    sublayers: dict[str, Sublayer] = {"attention": attention, "feedforward": network}
    branches = {
        each.called: Branch(norm_before=norms[name][0], sublayer=each, norm_after=norms[name][1])
        for name, each in sublayers.items()
    }
    return Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches.items()))


_GATE: Table = {"attention.gate.projection": "self_attn.gate_proj"}
_SPARK: Table = {
    "experts.norm_before": "pre_feedforward_layernorm",
    "experts.latent_in": "mlp.pre_expert_proj",
    "experts.latent_norm": "mlp.pre_expert_norm",
    "experts.output_norm": "mlp.experts.post_expert_norm",
    "experts.latent_out": "mlp.post_expert_proj",
    "step_0_streams.gate": To("post_attention_residual_gate.gate", Shaped((-1,))),
    "step_1_streams.gate": To("post_feedforward_residual_gate.gate", Shaped((-1,))),
}
_GLIMMER = decoder_names(ATTENTION, FEEDFORWARD, BEFORE, AFTER, _GATE)
FAMILIES = (
    Family("muse_glimmer_text", read, _GLIMMER, ""),
    Family(
        "muse_spark_text",
        read_spark,
        decoder_names(ATTENTION, FEEDFORWARD, ROUTED, CORRECTION, BEFORE, AFTER, _GATE, _SPARK),
        "",
    ),
)
