"""Switch Transformers: T5 with top-1 experts in layers at an interval.

Dropout within experts, which transformers has, is not described here.
"""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import has_experts
from anyformer.huggingface.rules import Names, Stacked, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.activations import known, of_network
from anyformer.huggingface.words.t5_line import (
    CROSS,
    IGNORED,
    attentions,
    buckets,
    depth,
    stacks_names,
    t5_activation,
    t5_initialisation,
)
from anyformer.model import Architecture
from anyformer.parts import Embedding, Experts, FeedForward, Head, Router, RowCapacity, SharedBias, Stack, pre_norm, stack


def read(config: Config) -> Architecture:
    config.put(pad_token_id=0, decoder_start_token_id=0)  # ids that the model's class needs
    config.expect_all(is_encoder_decoder=True, is_decoder=False, is_gated_act=False, router_dtype="float32")
    tied = config("tie_word_embeddings", True, lambda target: target.architecture.decoder_embedding is None)
    table = Embedding(vocab=config("vocab_size"))
    return Architecture(
        width=config("d_model"),
        embedding=table,
        # Untied, transformers gives each side a table of its own.
        decoder_embedding=None if tied else table,
        encoder=_stack(config, "encoder"),
        decoder=_stack(config, "decoder"),
        head=Head(tied=tied, scale="inverse_sqrt_width" if tied else 1.0),
        initialisation=t5_initialisation(config),
    )


def _stack(config: Config, side: str) -> Stack:
    norm, dropout = words.rms_norm(config, key="layer_norm_epsilon"), config("dropout_rate", 0.1, "stack.dropout")
    function = known(config("dense_act_fn", "relu", lambda target: t5_activation(of_network(target))))
    width = config("d_ff", at=_width)
    dense = FeedForward(width=width, activation=function, gated=False, dropout=dropout)
    router = Router(
        bias=config("router_bias", False, _anywhere("experts.router.bias")),
        jitter=config("router_jitter_noise", 0.01, _anywhere("experts.router.jitter")),
    )
    experts = Experts(
        experts=config("num_experts", 8, _anywhere("experts.experts")),
        chosen=1,
        width=width,
        activation=function,
        gated=False,
        router=router,
        capacity=RowCapacity(tokens=config("expert_capacity", 64, _anywhere("experts.capacity.tokens"))),
    )
    attends = attentions(config, side)
    blocks = {
        name: pre_norm(norm, *attends, network, dropout=dropout) for name, network in (("dense", dense), ("experts", experts))
    }
    layers = depth(config, side, 12)
    sparse = config(f"num_sparse_{side}_layers", 3, lambda target: sum(_sparse(target, side)))
    step = config(f"{side}_sparse_step", layers // sparse if sparse else layers, lambda target: _step(_sparse(target, side)))
    return stack(
        [blocks["experts" if step and i % step == 1 % step else "dense"] for i in range(layers)],
        names=Named(blocks),
        score_bias=SharedBias(heads=attends[0].heads, buckets=buckets(config, side)),
        dropout=dropout,
        final_norm=norm,
    )


def _sparse(target: Target, side: str) -> list[bool]:
    return has_experts(Target(target.architecture, side))


def _anywhere(path: str) -> Any:
    """The value at a path in the decoder, else in the encoder."""
    return lambda target: target(path) if target.has("experts") else target(f"encoder:{path}")


def _width(target: Target) -> int:
    return int(target.get("feedforward.width") or target("experts.width"))


def _step(sparse: list[bool]) -> int:
    """The interval of layers with experts, of which the second layer is the first unless all have experts."""
    places = [i for i, is_sparse in enumerate(sparse) if is_sparse]
    if not places:
        return 0
    if places[0] == 0:
        return 1
    return places[1] - places[0] if len(places) > 1 else len(sparse)


def names(architecture: Architecture) -> Names:
    both = stacks_names(_network(1), {**CROSS, **_network(2)})
    if architecture.decoder_embedding is None:
        return both
    own: Table = {"embedding": "encoder.embed_tokens", "decoder_embedding": "decoder.embed_tokens"}
    return Names({**both.outside, **own}, both.layers)


def _network(number: int) -> Table:
    """Names of the dense network or of the experts of a layer."""
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


_INERT = (
    "add_router_probs", "feed_forward_proj", "n_positions", "num_sparse_decoder_layers", "num_sparse_encoder_layers",
    "router_ignore_padding_tokens", "router_type", "router_z_loss_coef",
)  # fmt: skip
"""Keys of losses, keys that no code reads, and counts of sparse layers, which follow from their interval."""
FAMILIES = (
    Family(
        "switch_transformers",
        read,
        names,
        "SwitchTransformersForConditionalGeneration",
        inert=_INERT,
        ignored=(*IGNORED, r"shared\.weight"),
        beyond_fp16=True,
    ),
)
