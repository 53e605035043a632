"""Switch Transformers: T5 with one of many experts per token in every so many layers.

Dropout within experts, which transformers has, is not known here.
"""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.t5 import (
    CROSS,
    IGNORED,
    attentions,
    buckets,
    initialisation,
    stacks,
    write_function,
    written,
)
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Stacked, Table, To
from anyformer.huggingface.spelling import activation
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Embedding,
    Experts,
    FeedForward,
    Head,
    RMSNorm,
    Router,
    RowCapacity,
    SharedBias,
    Stack,
    pre_norm,
    stack,
)

INERT = (
    "add_router_probs", "feed_forward_proj", "n_positions", "num_sparse_decoder_layers", "num_sparse_encoder_layers",
    "router_ignore_padding_tokens", "router_type", "router_z_loss_coef",
)  # fmt: skip
"""Losses, what nothing reads, and counts of layers where the steps between them are given."""


def read(config: Config) -> Architecture:
    config.expect("is_decoder", False)
    config.expect("is_gated_act", False)
    config.expect("router_dtype", "float32")
    width, tied = config("d_model"), config("tie_word_embeddings", True)
    encoder = config("num_layers")
    decoder = config("num_decoder_layers", 12)
    table = Embedding(vocab=config("vocab_size"))
    return encoder_decoder(
        table,
        width,
        _stack(config, "encoder", encoder),
        _stack(config, "decoder", encoder if decoder is None else decoder),
        # Untied, transformers gives each side a table of its own.
        decoder_embedding=None if tied else table,
        head=Head(tied=tied, scale=width**-0.5 if tied else 1.0),
        initialisation=initialisation(config),
    )


def _stack(config: Config, side: str, depth: int) -> Stack:
    norm, dropout = RMSNorm(eps=config("layer_norm_epsilon", 1e-6)), config("dropout_rate", 0.1)
    function = activation(config("dense_act_fn", "relu"))
    dense = FeedForward(width=config("d_ff"), activation=function, gated=False, dropout=dropout)
    experts = Experts(
        experts=config("num_experts", 8),
        chosen=1,
        width=config("d_ff"),
        activation=function,
        gated=False,
        router=Router(bias=config("router_bias", False), jitter=config("router_jitter_noise", 0.01)),
        capacity=RowCapacity(tokens=config("expert_capacity", 64)),
    )
    attends = attentions(config, side)
    blocks = {
        name: pre_norm(norm, *attends, network, dropout=dropout) for name, network in (("dense", dense), ("experts", experts))
    }
    sparse = config(f"num_sparse_{side}_layers", 3)
    step = config(f"{side}_sparse_step", depth // sparse if sparse else depth)
    return stack(
        [blocks["experts" if step and i % step == 1 % step else "dense"] for i in range(depth)],
        names=Named(blocks),
        score_bias=SharedBias(heads=attends[0].heads, buckets=buckets(config, side)),
        dropout=dropout,
        final_norm=norm,
    )


def write(architecture: Architecture) -> dict[str, Any]:
    order = {side: tuple(part.layers) for side, part in architecture.stacks.items()}
    found: dict[str, Any] = {}
    for side, variants in order.items():
        if "dense" in variants:
            dense: FeedForward = get(architecture, f"{side}.dense.feedforward.sublayer")
            found |= {"d_ff": dense.width, "dense_act_fn": write_function(dense.activation)}
        if "experts" in variants:
            experts: Experts = get(architecture, f"{side}.experts.experts.sublayer")
            found |= {
                "d_ff": experts.width,
                "dense_act_fn": write_function(experts.activation),
                "num_experts": experts.experts,
                "expert_capacity": get(architecture, f"{side}.experts.experts.sublayer.capacity.tokens"),
                "router_bias": experts.router.bias,
                "router_jitter_noise": experts.router.jitter,
            }
        found[f"num_sparse_{side}_layers"] = variants.count("experts")
        found[f"{side}_sparse_step"] = _step(variants)
    return (
        written(architecture, "decoder.score_bias.buckets", order["decoder"][0])
        | found
        | {"tie_word_embeddings": architecture.decoder_embedding is None}
    )


def _step(variants: tuple[str, ...]) -> int:
    """From one layer of experts to the next; the first is the second layer, unless all are."""
    sparse = [i for i, name in enumerate(variants) if name == "experts"]
    if not sparse:
        return 0
    if sparse[0] == 0:
        return 1
    return sparse[1] - sparse[0] if len(sparse) > 1 else len(variants)


def names(architecture: Architecture) -> Names:
    found = stacks(_network(1), {**CROSS, **_network(2)})
    if architecture.decoder_embedding is None:
        return found
    own: Table = {"embedding": "encoder.embed_tokens", "decoder_embedding": "decoder.embed_tokens"}
    return Names({**found.outside, **own}, found.layers)


def _network(number: int) -> Table:
    """One network or many, whichever a layer has."""
    mlp, norm = f"layer.{number}.mlp", f"layer.{number}.layer_norm"
    return {
        "feedforward.norm_before": norm,
        "feedforward.up": f"{mlp}.wi",
        "feedforward.down": f"{mlp}.wo",
        "experts.norm_before": norm,
        "experts.router": f"{mlp}.router.classifier",
        "experts.up": To(f"{mlp}.experts.expert_{{x}}.wi.weight", Stacked()),
        "experts.down": To(f"{mlp}.experts.expert_{{x}}.wo.weight", Stacked()),
    }


FAMILIES = (
    Family(
        "switch_transformers", read, write, names, "SwitchTransformersForConditionalGeneration", inert=INERT,
        ignored=(*IGNORED, r"shared\.weight"),
    ),
)  # fmt: skip
