"""BART's line: encoder-decoders with LayerNorm, biases and absolute positions, and the names of their weights.

Model types differ in the placement of norms, in positions, and in the parts around the layers. Layers that transformers drops
at random in training (`encoder_layerdrop`, `decoder_layerdrop`) are never dropped here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.fixed_tables import FixedTable, sinusoids
from anyformer.huggingface.rules import Names, Shaped, Table, To
from anyformer.huggingface.target import Place
from anyformer.huggingface.words.fairseq import ATTENTION, NORMS, PLAIN
from anyformer.huggingface.words.heads import ALL
from anyformer.huggingface.words.models import initialisation, root_scale
from anyformer.huggingface.words.names import projections
from anyformer.huggingface.words.networks import plain
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    CrossAttention,
    Embedding,
    Head,
    LayerNorm,
    LearnedPosition,
    Projection,
    SinusoidalPosition,
    Softmax,
    Stack,
    post_norm,
    stack,
)
from anyformer.parts.attention.projection import Projected

SIDES = ("encoder", "decoder")
INERT = (
    "_num_labels", "add_bias_logits", "add_final_layer_norm", "classif_dropout", "decoder_layerdrop",
    "do_blenderbot_90_layernorm", "encoder_layerdrop", "extra_layer_norm", "extra_pos_embeddings",
    "force_bos_token_to_be_generated", "layernorm_variant", "normalize_before", "normalize_embedding", "replacing_rate",
    "save_step", "static_position_embeddings", "student_decoder_layers", "student_encoder_layers",
)  # fmt: skip
"""Rates of layers dropped in training, and keys of older files for what their class fixes."""
COPIES = r"model\.(shared|encoder\.embed_tokens|decoder\.embed_tokens)\.weight"
"""Copies of the shared table, and a shared table that neither side uses where each has its own."""
STAND_INS = {"model.shared.weight": ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")}
"""The shared table under the names of both sides, by which alone some files hold it."""
ENCODER: Table = {**ATTENTION, **PLAIN, **NORMS}
DECODER: Table = {
    **ENCODER,
    **projections("encoder_attn.*_proj", "encoder_attn.out_proj", "cross_attention"),
    "cross_attention.norm_before": "encoder_attn_layer_norm",
    "step_1_norm_after": "encoder_attn_layer_norm",
    "step_2_norm_after": "final_layer_norm",
}
AROUND: Table = {
    f"{side}.{part}": f"model.{side}.{theirs}"
    for side in SIDES
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
SINUSOIDS: Mapping[str, FixedTable] = {rf"(?:model\.)?{side}\.embed_positions\.weights?": sinusoids(side) for side in SIDES}
"""Sinusoids that files may hold."""


def tables(architecture: Architecture, both: str = "model.shared") -> Table:
    """Stored names of the embeddings: one table for both sides, or one each."""
    if architecture.decoder_embedding is None:
        return {"embedding": both}
    return {"embedding": "model.encoder.embed_tokens", "decoder_embedding": "model.decoder.embed_tokens"}


def bart_names(architecture: Architecture) -> Names:
    return Names({**tables(architecture), **AROUND, **HEAD}, LAYERS)


def learned(offset: int, length: int) -> Callable[[Config, str], LearnedPosition]:
    """Learned positions whose first `offset` rows are unused; `length`: the class's default."""
    return lambda config, side: LearnedPosition(
        length=config("max_position_embeddings", length, "decoder.position.length"), offset=offset
    )


def halves(config: Config, side: str) -> SinusoidalPosition:
    """All sines, then all cosines, from position 0; a table of a fixed length."""
    return SinusoidalPosition(layout="halves", length=config("max_position_embeddings", 1024, "decoder.position.length"))


def after_padding(config: Config, side: str) -> SinusoidalPosition:
    """Fairseq's sinusoids, whose first position follows the id of padding, without a limit of length."""
    offset = config("pad_token_id", 1, lambda target: target("decoder.position.offset") - 1) + 1
    return SinusoidalPosition(layout="halves", spacing="inclusive", offset=offset)


@dataclass(frozen=True)
class BartVariant:
    """One model type: the parts in which it differs from the others, and defaults of its configuration class."""

    position: Callable[[Config, str], LearnedPosition | SinusoidalPosition]
    """The positions of a side."""
    wiring: Callable[..., Block] = post_norm
    input_norm: bool = False
    final_norm: bool = False
    bias: bool = True
    """Whether the head adds a bias, which transformers keeps as a buffer: `final_logits_bias`."""
    headless: str = ""
    """The class without a head, of which some files are saved: their models have no bias."""
    projections: tuple[Projected, ...] = ALL
    """Projections of an attention that have a bias."""
    scaled: bool = False
    activation: str = "gelu"
    attention_dropout: float = 0.0

    def read(self, config: Config) -> Architecture:
        tied = config("tie_word_embeddings", True, lambda target: target.architecture.decoder_embedding is None)
        return self.architecture(config, config("vocab_size"), tied)

    def architecture(self, config: Config, vocab: int, tied: bool) -> Architecture:
        """`tied`: both sides and the head have one table."""
        config.expect("is_decoder", False)
        table = Embedding(vocab=vocab, scale=root_scale(config, self.scaled))
        if self.headless and config.target is not None and not config.target("head.bias"):
            config.put(architectures=[self.headless])
        bias = self.bias and self.headless not in (config("architectures", None) or ())
        # Untied, transformers gives each side a table of its own.
        second = None if tied else table
        return self.of(config, embedding=table, decoder_embedding=second, head=Head(tied=tied, bias=bias))

    def of(self, config: Config, encoder: Stack | None = None, **around: Any) -> Architecture:
        """The model of both stacks; `around`: its other fields; `encoder`: the stack, if it is not this line's."""
        config.expect("num_hidden_layers", config("encoder_layers", at=lambda target: target.depth("encoder")))
        return Architecture(
            width=config("d_model"),
            encoder=encoder or self.stack(config, "encoder"),
            decoder=self.stack(config, "decoder"),
            initialisation=initialisation(config, key="init_std"),
            **around,
        )

    def stack(self, config: Config, side: str) -> Stack:
        """The encoder or the decoder."""
        norm, dropout = LayerNorm(), config("dropout", 0.1)
        heads: dict[str, Any] = {
            "heads": config(f"{side}_attention_heads", at=f"{side}:attention.heads"),
            "project": Projection(bias=self.projections),
            "weigh": Softmax(dropout=config("attention_dropout", self.attention_dropout)),
        }
        attends: tuple[Any, ...] = (Attention(mask=Bidirectional(), **heads),)
        if side == "decoder":
            attends = (Attention(**heads), CrossAttention(**heads))
        width = config(f"{side}_ffn_dim", at=self.width_place(side))
        inner = config("activation_dropout", 0.0)
        network = plain(config, self.activation, "activation_function", size=None, width=width, dropout=inner)
        depth = config(f"{side}_layers", at=lambda target: target.depth(side))
        return stack(
            [self.wiring(norm, *attends, network, dropout=dropout)] * depth,
            position=self.position(config, side),
            input_norm=norm if self.input_norm else None,
            dropout=dropout,
            final_norm=norm if self.final_norm else None,
        )

    def width_place(self, side: str) -> Place:
        """Where the width of a side's networks stands."""
        return f"{side}:feedforward.width"

    def family(self, model_type: str, default_class: str, *, inert: tuple[str, ...] = (), **more: Any) -> Family:
        """The family of a model type of this line."""
        given: dict[str, Any] = {"read": self.read, "names": bart_names, "base": "model.", "stand_ins": STAND_INS} | more
        given["ignored"] = (COPIES, *more.get("ignored", ()))
        return Family(model_type, default_class=default_class, inert=(*INERT, *inert), **given)
