"""T5, mT5 and UMT5: RMS pre-norm without biases, unscaled scores, and buckets of relative positions on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation, write_activation
from anyformer.model import Architecture, encoder_decoder
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
    RMSNorm,
    SharedBias,
    Stack,
    pre_norm,
    stack,
)
from anyformer.parts.heads import PROJECTIONS

INERT = ("n_positions", "scalable_attention")
COPIES = r"(encoder|decoder)\.embed_tokens\.weight"
UNUSED = r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
"""A table that the first releases held, and that nothing reads."""
OUTSIDE: Table = {
    "embedding": "shared",
    "head": "lm_head",
    "encoder.final_norm": "encoder.final_layer_norm",
    "decoder.final_norm": "decoder.final_layer_norm",
}


def projections(ours: str, theirs: str) -> Table:
    """The four projections of an attention."""
    return {f"{ours}.{name}": f"{theirs}.{name[0]}" for name in PROJECTIONS}


def self_attention(called: str) -> Table:
    """Self-attention, with a table of relative positions if it has its own."""
    return {
        **projections("attention", f"layer.0.{called}"),
        "attention.norm_before": "layer.0.layer_norm",
        "attention.score_bias": f"layer.0.{called}.relative_attention_bias",
    }


CROSS: Table = {
    **projections("cross_attention", "layer.1.EncDecAttention"),
    "cross_attention.norm_before": "layer.1.layer_norm",
}


def feedforward(number: int, gated: bool, name: str = "DenseReluDense") -> Table:
    """Without a gate the up projection is `wi`; with one it is `wi_1`."""
    theirs = f"layer.{number}.{name}"
    return {
        "feedforward.gate": f"{theirs}.wi_0",
        "feedforward.up": f"{theirs}.{'wi_1' if gated else 'wi'}",
        "feedforward.down": f"{theirs}.wo",
        "feedforward.norm_before": f"layer.{number}.layer_norm",
    }


def names(architecture: Architecture, encodes: str = "SelfAttention") -> Names:
    """`encodes`: what the encoder's attention is called."""
    gated = get(architecture, "encoder.layer.feedforward.sublayer.gated")
    return stacks(feedforward(1, gated), {**CROSS, **feedforward(2, gated)}, encodes)


def stacks(encoder: Table, decoder: Table, encodes: str = "SelfAttention") -> Names:
    """The names of both stacks, given what is in their layers beside self-attention."""
    shared: Table = {
        f"{side}.score_bias": f"{side}.block.0.layer.0.{called}.relative_attention_bias"
        for side, called in (("encoder", encodes), ("decoder", "SelfAttention"))
    }
    return Names(
        {**OUTSIDE, **shared},
        {
            "encoder": ("encoder.block.{i}.", {**self_attention(encodes), **encoder}),
            "decoder": ("decoder.block.{i}.", {**self_attention("SelfAttention"), **decoder}),
        },
    )


def buckets(config: Config, side: str) -> RelativeBuckets:
    """Distances to both sides in the encoder, backwards in the decoder."""
    return RelativeBuckets(
        buckets=config("relative_attention_num_buckets", 32),
        max_distance=config("relative_attention_max_distance", 128),
        two_sided=side == "encoder",
    )


def network(config: Config, proj: str) -> FeedForward:
    """`gated-gelu` is the tanh approximation, plain `gelu` is not."""
    gated, _, named = proj.rpartition("-")
    function = "gelu_new" if proj == "gated-gelu" else named
    return FeedForward(
        width=config("d_ff"),
        activation=activation(config("dense_act_fn", function)),
        gated=config("is_gated_act", gated == "gated"),
        dropout=config("dropout_rate", 0.1),
    )


def write_function(name: str) -> str:
    """T5 has its own spelling, and kernel, of the tanh approximation."""
    return "gelu_new" if name == "gelu_tanh" else write_activation(name)


def write_network(name: str, gated: bool) -> str:
    """`feed_forward_proj`."""
    plain = write_function(name)
    if not gated:
        return plain
    return "gated-gelu" if plain == "gelu_new" else f"gated-{plain}"


def depth(config: Config, side: str) -> int:
    """The decoder is as deep as the encoder unless it says otherwise."""
    both: int = config("num_layers")
    own = config("num_decoder_layers", None)
    return both if side == "encoder" or own is None else own


def attentions(config: Config, side: str, **more: Any) -> tuple[Attention, ...] | tuple[Attention, CrossAttention]:
    """Scores are not scaled: the first weights are narrow instead. Cross-attention knows no positions."""
    heads = {
        "heads": config("num_heads"),
        "head_width": config("d_kv"),
        "scale": 1.0,
        "dropout": config("dropout_rate", 0.1),
    }
    if side == "encoder":
        return (Attention(mask=Bidirectional(), **heads, **more),)
    return Attention(**heads, **more), CrossAttention(**heads)


def initialisation(config: Config) -> Initialisation:
    """Matrices by their inputs, tables and an untied head with deviation `initializer_factor`."""
    factor = config("initializer_factor", 1.0)
    table = Normal(std=factor)
    return Initialisation(matrix=FanIn(gain=factor), embedding=table, head=table)


@dataclass(frozen=True)
class Line:
    """What tells the model types apart."""

    encoder: str
    """The class of an encoder alone, which gives features."""
    scales: bool = True
    """Whether a file may ask for logits times d_model^-0.5."""
    shared_bias: bool = True
    """One table of relative positions per stack, or one per layer."""
    proj: str = "gated-gelu"

    def read(self, config: Config) -> Architecture:
        config.expect("is_decoder", False)
        width = config("d_model")
        scale = width**-0.5 if self.scales and as_said(config) else 1.0
        made = encoder_decoder(
            Embedding(vocab=config("vocab_size")),
            width,
            self.stack(config, "encoder"),
            self.stack(config, "decoder"),
            head=Head(tied=config("tie_word_embeddings", True), scale=scale),
            initialisation=initialisation(config),
        )
        alone = self.encoder in (config("architectures", None) or ())
        return made.but(decoder=None, head=None) if alone else made

    def stack(self, config: Config, side: str) -> Stack:
        norm, dropout = RMSNorm(eps=config("layer_norm_epsilon", 1e-6)), config("dropout_rate", 0.1)
        bias = buckets(config, side)
        attends = attentions(config, side, score_bias=None if self.shared_bias else bias)
        feeds = network(config, config("feed_forward_proj", self.proj))
        return stack(
            [pre_norm(norm, *attends, feeds, dropout=dropout)] * depth(config, side),
            score_bias=SharedBias(heads=attends[0].heads, buckets=bias) if self.shared_bias else None,
            dropout=dropout,
            final_norm=norm,
        )

    def write(self, architecture: Architecture) -> dict[str, Any]:
        *_, last = architecture.stacks
        found: FeedForward = get(architecture, f"{last}.layer.feedforward.sublayer")
        table = f"{last}.score_bias.buckets" if self.shared_bias else f"{last}.layer.attention.score_bias"
        alone = {"architectures": [self.encoder]} if architecture.head is None else {}
        said = {"scale_decoder_outputs": scaled(architecture)} if self.scales and not alone else {}
        return (
            written(architecture, table)
            | alone
            | said
            | {
                "d_ff": found.width,
                "feed_forward_proj": write_network(found.activation, found.gated),
                "dense_act_fn": write_function(found.activation),
                "is_gated_act": found.gated,
            }
        )


def written(architecture: Architecture, bias: str, layer: str = "layer") -> dict[str, Any]:
    """What all of them write alike. `bias`: where the buckets are; `layer`: a variant of the last stack."""
    *_, last = architecture.stacks
    attention: Attention = get(architecture, f"{last}.{layer}.attention.sublayer")
    table: RelativeBuckets = get(architecture, bias)
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "d_model": architecture.width,
        "d_kv": attention.head_width,
        "num_heads": attention.heads,
        "num_layers": get(architecture, "encoder").depth,
        "num_decoder_layers": architecture.output_stack.depth,
        "relative_attention_num_buckets": table.buckets,
        "relative_attention_max_distance": table.max_distance,
        "dropout_rate": attention.dropout,
        "layer_norm_epsilon": get(architecture, f"{last}.final_norm.eps"),
        "tie_word_embeddings": architecture.head is None or get(architecture, "head.tied"),
        # What a model's own class takes for granted.
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
    }


def scaled(architecture: Architecture) -> bool:
    """Whether logits are scaled."""
    return bool(get(architecture, "head.scale") != 1.0)


def as_said(config: Config) -> bool:
    """T5 1.0 scales; 1.1 and UMT5 do not, and their files say so by an untied head. transformers 5 has a key of its own.

    Of UMT5 transformers 5 reads neither, and always scales: a model that does not is read as published, and not exported.
    """
    return bool(config("scale_decoder_outputs", config("tie_word_embeddings", True) is not False))


def _write_umt5(architecture: Architecture) -> dict[str, Any]:
    if architecture.head is not None and not scaled(architecture):
        raise HuggingFaceError(
            "umt5: transformers multiplies the logits by d_model^-0.5, and head.scale is 1; set it, or save in our own layout"
        )
    return UMT5.write(architecture)


T5 = Line("T5EncoderModel", proj="relu")
MT5 = Line("MT5EncoderModel", scales=False)
UMT5 = Line("UMT5EncoderModel", shared_bias=False)
IGNORED = (COPIES, UNUSED)
"""What files hold beside the weights."""

FAMILIES = (
    Family("t5", T5.read, T5.write, names, "T5ForConditionalGeneration", INERT, IGNORED, kernel="sdpa"),
    Family("mt5", MT5.read, MT5.write, names, "MT5ForConditionalGeneration", INERT, IGNORED, kernel="sdpa"),
    Family("umt5", UMT5.read, _write_umt5, names, "UMT5ForConditionalGeneration", INERT, IGNORED, kernel="sdpa"),
)
