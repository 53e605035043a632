"""T5's line: RMS pre-norm without biases, unscaled scores with buckets of relative positions, and names of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.activations import known, named
from anyformer.huggingface.words.names import projections
from anyformer.huggingface.words.norms import rms_norm
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    CrossAttention,
    Embedding,
    FanIn,
    FeedForward,
    Head,
    Initialisation,
    Normal,
    RelativeBuckets,
    Score,
    SharedBias,
    Softmax,
    Stack,
    pre_norm,
    stack,
)

IGNORED = (
    r"(encoder|decoder)\.embed_tokens\.weight",
    # A table of the first releases that no code reads.
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
)
"""Stored tensors that are not weights of the model."""
STAND_INS = {"shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")}
"""The table under the names of both sides, by which alone some files hold it."""
OUTSIDE: Table = {
    "embedding": "shared",
    "head": "lm_head",
    "encoder.final_norm": "encoder.final_layer_norm",
    "decoder.final_norm": "decoder.final_layer_norm",
}


CROSS: Table = {
    **projections("layer.1.EncDecAttention.*", ours="cross_attention"),
    "cross_attention.norm_before": "layer.1.layer_norm",
}


def _self_attention(called: str) -> Table:
    """Names of self-attention, and of its table of relative positions if it has one of its own."""
    return {
        **projections(f"layer.0.{called}.*"),
        "attention.norm_before": "layer.0.layer_norm",
        "attention.score_bias": f"layer.0.{called}.relative_attention_bias",
    }


def _network(number: int, gated: bool) -> Table:
    """Names of the network: without a gate the up projection is `wi`, with one it is `wi_1`."""
    theirs = f"layer.{number}.DenseReluDense"
    return {
        "feedforward.gate": f"{theirs}.wi_0",
        "feedforward.up": f"{theirs}.{'wi_1' if gated else 'wi'}",
        "feedforward.down": f"{theirs}.wo",
        "feedforward.norm_before": f"layer.{number}.layer_norm",
    }


def t5_names(architecture: Architecture, encodes: str = "SelfAttention") -> Names:
    """Names of T5's weights; `encodes`: the name of the encoder's attention."""
    gated = Target(architecture, "encoder")("feedforward.gated")
    return stacks_names(_network(1, gated), {**CROSS, **_network(2, gated)}, encodes)


def stacks_names(encoder: Table, decoder: Table, encodes: str = "SelfAttention") -> Names:
    """The names of both stacks; `encoder`, `decoder`: those in their layers besides self-attention."""
    shared: Table = {
        f"{side}.score_bias": f"{side}.block.0.layer.0.{called}.relative_attention_bias"
        for side, called in (("encoder", encodes), ("decoder", "SelfAttention"))
    }
    return Names(
        {**OUTSIDE, **shared},
        {
            "encoder": ("encoder.block.{i}.", {**_self_attention(encodes), **encoder}),
            "decoder": ("decoder.block.{i}.", {**_self_attention("SelfAttention"), **decoder}),
        },
    )


def buckets(config: Config, side: str) -> RelativeBuckets:
    """Buckets of distances: to both sides in the encoder, backwards in the decoder."""

    def of(field: str) -> Any:
        return lambda target: target.get(f"stack.score_bias.buckets.{field}") or target(f"attention.score_bias.{field}")

    return RelativeBuckets(
        buckets=config("relative_attention_num_buckets", 32, of("buckets")),
        max_distance=config("relative_attention_max_distance", 128, of("max_distance")),
        two_sided=side == "encoder",
    )


def network(config: Config, proj: str) -> FeedForward:
    """The network; `proj`: the default of its form. `gated-gelu` is the tanh approximation, plain `gelu` is exact."""
    proj = config("feed_forward_proj", proj, _written_form)
    gated, _, function = proj.rpartition("-")
    function = "gelu_new" if proj == "gated-gelu" else function
    return FeedForward(
        width=config("d_ff"),
        activation=known(config("dense_act_fn", function, lambda target: t5_activation(target("feedforward.activation")))),
        gated=config("is_gated_act", gated == "gated", "feedforward.gated"),
        dropout=config("dropout_rate", 0.1, "stack.dropout"),
    )


def t5_activation(name: str) -> str:
    """The name of an activation in T5, which has its own spelling, and kernel, of the tanh approximation."""
    return named(name, "gelu_new")


def _written_form(target: Target) -> str:
    plain = t5_activation(target("feedforward.activation"))
    if not target("feedforward.gated"):
        return plain
    return "gated-gelu" if plain == "gelu_new" else f"gated-{plain}"


def depth(config: Config, side: str, default: int | None = None) -> int:
    """L of a stack; the decoder is as deep as the encoder unless it has a key of its own."""
    both: int = config("num_layers", at=lambda target: target.depth("encoder"))
    own = config("num_decoder_layers", default, lambda target: target.depth("decoder"))
    return both if side == "encoder" or own is None else own


def attentions(config: Config, side: str, **more: Any) -> tuple[Any, ...]:
    """The attention sublayers of a side, with unscaled scores (initial weights are small instead)."""
    heads: dict[str, Any] = {
        "heads": config("num_heads"),
        "head_width": config("d_kv", at="attention.head_width"),
        "score": Score(scale=1.0),
        "weigh": Softmax(dropout=config("dropout_rate", 0.1, "stack.dropout")),
    }
    if side == "encoder":
        return (Attention(mask=Bidirectional(), **heads).but(**more),)
    return Attention(**heads).but(**more), CrossAttention(**heads)


def t5_initialisation(config: Config) -> Initialisation:
    """Matrices scaled by their inputs; tables and an untied head with deviation `initializer_factor`."""
    factor = config("initializer_factor", 1.0)
    table = Normal(std=factor)
    return Initialisation(matrix=FanIn(gain=factor), embedding=table, head=table)


@dataclass(frozen=True)
class T5Variant:
    """One model type: the parts in which it differs from the others."""

    encoder: str
    """The class of the encoder alone, without a head."""
    scales: bool = True
    """Whether logits may be scaled by d_model^-0.5."""
    shared_bias: bool = True
    """One table of relative positions per stack, or one per layer."""
    proj: str = "gated-gelu"

    def read(self, config: Config) -> Architecture:
        config.put(pad_token_id=0, decoder_start_token_id=0)  # ids that the model's class needs
        config.expect("is_decoder", False)
        alone = config.target is not None and config.target.architecture.head is None
        config.put(**({"architectures": [self.encoder]} if alone else {}))
        tied = config("tie_word_embeddings", True)
        made = Architecture(
            width=config("d_model"),
            embedding=Embedding(vocab=config("vocab_size")),
            encoder=self.stack(config, "encoder"),
            decoder=self.stack(config, "decoder"),
            head=Head(tied=tied, scale="inverse_sqrt_width" if self.scales and _scaled(config) else 1.0),
            initialisation=t5_initialisation(config),
        )
        if self.encoder in (config("architectures", None) or ()):
            return made.but(decoder=None, head=None)
        config.expect("is_encoder_decoder", True, why="the class would give cross-attention the keys of self-attention")
        return made

    def stack(self, config: Config, side: str) -> Stack:
        norm, dropout = rms_norm(config, key="layer_norm_epsilon"), config("dropout_rate", 0.1, "stack.dropout")
        bias = buckets(config, side)
        attends = attentions(config, side, score_bias=None if self.shared_bias else bias)
        feeds = network(config, self.proj)
        return stack(
            [pre_norm(norm, *attends, feeds, dropout=dropout)] * depth(config, side),
            score_bias=SharedBias(heads=attends[0].heads, buckets=bias) if self.shared_bias else None,
            dropout=dropout,
            final_norm=norm,
        )


def _scaled(config: Config) -> bool:
    """Whether the logits are scaled: by transformers 5's key, else where the head is tied (T5 1.0, but not 1.1 and UMT5).

    transformers 5 always scales UMT5's logits: a model that does not is read as published, and not exported. A key that is null
    is one that says no.
    """
    flag = config("scale_decoder_outputs", None, lambda target: target("head.scale") != 1.0)
    return bool(flag if "scale_decoder_outputs" in config else config("tie_word_embeddings", True) is not False)
