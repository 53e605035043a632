"""BART and its next of kin: encoder-decoders with LayerNorm, biases everywhere and absolute positions; and their names.

They differ in where the norms stand, in the positions, and in what stands around the layers. Whole layers that
transformers drops in training (`encoder_layerdrop`, `decoder_layerdrop`) always stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.describe import change_all, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Shaped, Table, To
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Stack,
    post_norm,
    pre_norm,
    stack,
)
from anyformer.parts.heads import PROJECTIONS, Projection
from anyformer.parts.position import Position

INERT = (
    "_num_labels", "add_bias_logits", "add_final_layer_norm", "classif_dropout", "decoder_layerdrop",
    "do_blenderbot_90_layernorm", "encoder_layerdrop", "extra_layer_norm", "extra_pos_embeddings",
    "force_bos_token_to_be_generated", "layernorm_variant", "normalize_before", "normalize_embedding", "replacing_rate",
    "save_step", "static_position_embeddings", "student_decoder_layers", "student_encoder_layers",
)  # fmt: skip
"""Layers dropped in training, and what older files say of a structure that their class fixes."""
COPIES = r"model\.(shared|encoder\.embed_tokens|decoder\.embed_tokens)\.weight"
"""A table that both sides share is stored once or several times; one that neither side uses is stored beside their own."""


def projections(ours: str, theirs: str) -> Table:
    """The four projections of an attention."""
    return {f"{ours}.{name}": f"{theirs}.{name[0] if name != 'output' else 'out'}_proj" for name in PROJECTIONS}


FEEDFORWARD: Table = {"feedforward.up": "fc1", "feedforward.down": "fc2"}
ENCODER: Table = {
    **projections("attention", "self_attn"),
    **FEEDFORWARD,
    "attention.norm_before": "self_attn_layer_norm",
    "feedforward.norm_before": "final_layer_norm",
    "step_0_norm_after": "self_attn_layer_norm",
    "step_1_norm_after": "final_layer_norm",
}
"""Of both placements of the norms: those that are not there are passed over."""
DECODER: Table = {
    **projections("attention", "self_attn"),
    **projections("cross_attention", "encoder_attn"),
    **FEEDFORWARD,
    "attention.norm_before": "self_attn_layer_norm",
    "cross_attention.norm_before": "encoder_attn_layer_norm",
    "feedforward.norm_before": "final_layer_norm",
    "step_0_norm_after": "self_attn_layer_norm",
    "step_1_norm_after": "encoder_attn_layer_norm",
    "step_2_norm_after": "final_layer_norm",
}
AROUND: Table = {
    f"{ours}.{part}": f"model.{ours}.{theirs}"
    for ours in ("encoder", "decoder")
    for part, theirs in (
        ("position", "embed_positions"),
        ("input_norm", "layernorm_embedding"),
        ("final_norm", "layer_norm"),
    )
}
LAYERS: Mapping[str, tuple[str, Table]] = {
    "encoder": ("model.encoder.layers.{i}.", ENCODER),
    "decoder": ("model.decoder.layers.{i}.", DECODER),
}
HEAD: Table = {"head.weight": "lm_head.weight", "head.bias": To("final_logits_bias", Shaped((1, -1)))}


def names(architecture: Architecture) -> Names:
    """One table for both sides, or one each."""
    tables: Table = {"embedding": "model.shared"}
    if architecture.decoder_embedding is not None:
        tables = {"embedding": "model.encoder.embed_tokens", "decoder_embedding": "model.decoder.embed_tokens"}
    return Names({**tables, **AROUND, **HEAD}, LAYERS)


@dataclass(frozen=True)
class Line:
    """What tells the model types apart, and the defaults of their configuration classes."""

    position: Callable[[Config], Position]
    write_position: Callable[[Architecture], dict[str, Any]]
    wiring: Callable[..., Block] = post_norm
    input_norm: bool = False
    final_norm: bool = False
    bias: bool = True
    """Whether the head adds a bias, which transformers keeps as a buffer: `final_logits_bias`."""
    headless: str = ""
    """A class without a head, of which there are files: their models have no bias."""
    projections: tuple[Projection, ...] = PROJECTIONS
    """Projections of an attention that add a bias."""
    scaled: bool = False
    activation: str = "gelu"
    attention_dropout: float = 0.0

    def read(self, config: Config) -> Architecture:
        return self.architecture(config, config("vocab_size"), config("tie_word_embeddings", True))

    def architecture(self, config: Config, vocab: int, tied: bool) -> Architecture:
        """`tied`: both sides and the head have one table."""
        config.expect("num_hidden_layers", config("encoder_layers"))
        config.expect("is_decoder", False)
        width = config("d_model")
        scale = width**0.5 if config("scale_embedding", self.scaled) else 1.0
        table = Embedding(vocab=vocab, scale=scale)
        headless = self.headless in (config("architectures", None) or ())
        return encoder_decoder(
            table,
            width,
            self.stack(config, "encoder"),
            self.stack(config, "decoder"),
            # Untied, transformers gives each side a table of its own.
            decoder_embedding=None if tied else table,
            head=Head(tied=tied, bias=self.bias and not headless),
            initialisation=initialisation(config, key="init_std"),
        )

    def stack(self, config: Config, side: str) -> Stack:
        """The encoder or the decoder."""
        norm, dropout = LayerNorm(), config("dropout", 0.1)
        heads = {
            "heads": config(f"{side}_attention_heads"),
            "bias": self.projections,
            "dropout": config("attention_dropout", self.attention_dropout),
        }
        encodes = side == "encoder"
        attends = (Attention(mask=Bidirectional(), **heads),) if encodes else (Attention(**heads), CrossAttention(**heads))
        feedforward = FeedForward(
            width=config(f"{side}_ffn_dim"),
            activation=activation(config("activation_function", self.activation)),
            gated=False,
            bias=("up", "down"),
            dropout=config("activation_dropout", 0.0),
        )
        return stack(
            [self.wiring(norm, *attends, feedforward, dropout=dropout)] * config(f"{side}_layers"),
            position=self.position(config),
            input_norm=norm if self.input_norm else None,
            dropout=dropout,
            final_norm=norm if self.final_norm else None,
        )

    def write(self, architecture: Architecture) -> dict[str, Any]:
        without = self.headless and not get(architecture, "head.bias")
        return (
            written(architecture)
            | ({"architectures": [self.headless]} if without else {})
            | self.write_position(architecture)
            | {
                "vocab_size": get(architecture, "embedding.vocab"),
                "tie_word_embeddings": architecture.decoder_embedding is None,
            }
        )

    def family(self, model_type: str, default_class: str, *, inert: tuple[str, ...] = (), **more: Any) -> Family:
        """The family of this line."""
        ignored = (COPIES, *more.pop("ignored", ()))
        facts: dict[str, Any] = {"read": self.read, "write": self.write, "names": names, "base": "model."} | more
        return Family(model_type, default_class=default_class, inert=(*INERT, *inert), ignored=ignored, **facts)


def written(architecture: Architecture) -> dict[str, Any]:
    """What all that read tokens write alike."""
    return written_stacks(architecture) | {"scale_embedding": get(architecture, "embedding.scale") != 1.0}


def written_stacks(architecture: Architecture) -> dict[str, Any]:
    """Sizes, activation, dropout."""
    found: dict[str, Any] = {"d_model": architecture.width, "dropout": get(architecture, "decoder.dropout")}
    for side, part in architecture.stacks.items():
        attention: Attention = get(architecture, f"{side}.layer.attention.sublayer")
        feedforward: FeedForward = get(architecture, f"{side}.layer.feedforward.sublayer")
        found |= {
            f"{side}_layers": part.depth,
            f"{side}_attention_heads": attention.heads,
            f"{side}_ffn_dim": feedforward.width,
            "attention_dropout": attention.dropout,
            "activation_dropout": feedforward.dropout,
            "activation_function": write_activation(feedforward.activation),
        }
    return found


def learned(offset: int, length: int) -> tuple[Callable[[Config], Position], Callable[[Architecture], dict[str, Any]]]:
    """Learned positions, the first `offset` rows of which no token uses; `length`: the class's own default."""

    def read(config: Config) -> Position:
        return LearnedPosition(length=config("max_position_embeddings", length), offset=offset)

    return read, longest


def longest(architecture: Architecture) -> dict[str, Any]:
    """The length of a table of positions."""
    return {"max_position_embeddings": get(architecture, "decoder.position.length")}


BART = Line(*learned(2, 1024), input_norm=True, headless="BartModel")
MVP = Line(*learned(2, 1024), input_norm=True)
MBART = Line(*learned(2, 1024), wiring=pre_norm, input_norm=True, final_norm=True)
PLBART = Line(*learned(2, 1024), input_norm=True, scaled=True, attention_dropout=0.1)
SMALL = Line(*learned(0, 512), input_norm=True)
BLENDERBOT = Line(*learned(0, 128), wiring=pre_norm, final_norm=True)


def read_small(config: Config) -> Architecture:
    """BlenderbotSmall's decoder normalises the tokens before their positions are added, its encoder after.

    And it does not scale them: LayerNorm(x; eps) = LayerNorm(s x; s^2 eps).
    """
    made = SMALL.read(config)
    eps = get(made, "decoder.input_norm.eps") * get(made, "embedding.scale") ** 2
    return change_all(made, {"decoder.input_norm_at": "before_position", "decoder.input_norm.eps": eps})


def read_mvp(config: Config) -> Architecture:
    config.expect("use_prompt", False, why="prompts that a network computes are not known here")
    return MVP.read(config)


FAMILIES = (
    BART.family("bart", "BartForConditionalGeneration"),
    MBART.family("mbart", "MBartForConditionalGeneration"),
    PLBART.family("plbart", "PLBartForConditionalGeneration"),
    MVP.family("mvp", "MvpForConditionalGeneration", read=read_mvp, inert=("prompt_length", "prompt_mid_dim", "use_prompt")),
    BLENDERBOT.family("blenderbot", "BlenderbotForConditionalGeneration"),
    SMALL.family("blenderbot-small", "BlenderbotSmallForConditionalGeneration", read=read_small),
)
