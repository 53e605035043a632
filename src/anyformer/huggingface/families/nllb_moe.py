"""NLLB-MoE: M2M-100, of whose layers every n-th has experts, two of which a token passes.

No expert turns a token away, as in transformers once a model is trained; the capacity of experts in training, and dropout of
what an expert gives (`moe_token_dropout`), which training replaces by this factor, are not described here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anyformer.describe import Named, change
from anyformer.huggingface.config import Config
from anyformer.huggingface.places import has_experts
from anyformer.huggingface.rules import Names, Stacked, Table, To
from anyformer.huggingface.target import Place, Target
from anyformer.huggingface.words.names import projections
from anyformer.huggingface.words.seq2seq import AROUND, HEAD, SIDES, SINUSOIDS, BartVariant, after_padding, tables
from anyformer.model import Architecture
from anyformer.parts import Block, Experts, LayerNorm, Renormalise, Router, Stack, pre_norm, stack


@dataclass(frozen=True)
class SparseVariant(BartVariant):
    """A line of BART's some of whose layers have experts."""

    def width_place(self, side: str) -> Place:
        return lambda target: _width(target, side)

    def stack(self, config: Config, side: str) -> Stack:
        dense = super().stack(config, side)
        norm, dropout = LayerNorm(), config("dropout", 0.1)
        inner = config("activation_dropout", 0.0)
        block = next(iter(dense.variants.values()))
        network = block.branches["feedforward"].sublayer
        attends = tuple(branch.sublayer for name, branch in block.branches.items() if name != "feedforward")
        blocks = {
            name: change(pre_norm(norm, *attends, last, dropout=dropout), f"{name}.dropout", inner)
            for name, last in (("feedforward", network), ("experts", _experts(config, side, network)))
        }
        step = config(f"{side}_sparse_step", 4, lambda target: _step(has_experts(Target(target.architecture, side))))
        layers = [blocks["feedforward" if not step or (i + 1) % step else "experts"] for i in range(dense.depth)]
        named: Named[Block] = Named({"dense": blocks["feedforward"], "sparse": blocks["experts"]})
        fields = {name: getattr(dense, name) for name in ("position", "dropout", "final_norm")}
        return stack(layers, names=named, **fields)


def _experts(config: Config, side: str, network: Any) -> Experts:
    kept = config("moe_token_dropout", 0.2, lambda target: 1 - _anywhere("experts.router.scale")(target))
    return Experts(
        experts=config("num_experts", 128, _anywhere("experts.experts")),
        chosen=2,
        width=config(f"{side}_ffn_dim", at=lambda target: _width(target, side)),
        activation=network.activation,
        gated=False,
        bias=("up", "down"),
        router=Router(
            bias=config("router_bias", False, _anywhere("experts.router.bias")),
            renormalise=Renormalise(eps=0.0, least=1.1920928955078125e-07),
            scale=1 - kept,
        ),
    )


def _anywhere(path: str) -> Any:
    """The value at a path in the decoder, else in the encoder."""
    return lambda target: target(path) if target.has("experts") else target(f"encoder:{path}")


def _width(target: Target, side: str) -> int:
    found = Target(target.architecture, side)
    return int(found.get("feedforward.width") or found("experts.width"))


def _step(sparse: list[bool]) -> int:
    """The interval of layers with experts; 0 where there are none."""
    return sparse.index(True) + 1 if True in sparse else 0


SPARSE = SparseVariant(
    after_padding, wiring=pre_norm, final_norm=True, bias=False, scaled=True, activation="relu", attention_dropout=0.1
)


def read(config: Config) -> Architecture:
    config.expect_all(second_expert_policy="all", router_dtype="float32", moe_eval_capacity_token_fraction=1.0)
    return SPARSE.read(config)


_FEED: Table = {
    **projections("self_attn.*_proj", "self_attn.out_proj"),
    "attention.norm_before": "self_attn_layer_norm",
    **{f"{name}.norm_before": "ff_layer_norm" for name in ("feedforward", "experts")},
    "feedforward.up": "ffn.fc1",
    "feedforward.down": "ffn.fc2",
    "experts.router": "ffn.router.classifier",
    **{
        f"experts.{ours}": To(f"ffn.experts.expert_{{x}}.{theirs}", Stacked())
        for ours, theirs in (
            ("up", "fc1.weight"), ("up_bias", "fc1.bias"), ("down", "fc2.weight"), ("down_bias", "fc2.bias"),
        )
    },
}  # fmt: skip
_CROSS: Table = {
    **projections("cross_attention.*_proj", "cross_attention.out_proj", "cross_attention"),
    "cross_attention.norm_before": "cross_attention_layer_norm",
}


def names(architecture: Architecture) -> Names:
    layers = {side: (f"model.{side}.layers.{{i}}.", _FEED if side == "encoder" else {**_FEED, **_CROSS}) for side in SIDES}
    return Names({**tables(architecture), **AROUND, **HEAD}, layers)


FAMILIES = (
    SPARSE.family(
        "nllb-moe",
        "NllbMoeForConditionalGeneration",
        read=read,
        names=names,
        inert=(
            "batch_prioritized_routing", "expert_capacity", "normalize_router_prob_before_dropping",
            "router_ignore_padding_tokens", "router_z_loss_coef",
        ),
        fixed=SINUSOIDS,
    ),
)  # fmt: skip
