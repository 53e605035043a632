"""DeBERTa, versions 1 to 3: BERT whose scores also compare content with relative positions.

Version 3 has the architecture of version 2. In training transformers also drops entries of the table of relative positions.
"""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.bert import (
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    common,
    encoder,
    encoder_names,
    norm_of,
    sublayers,
)
from anyformer.huggingface.families.encoder_heads import encoder_head, head_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Groups, Names, Table, To
from anyformer.huggingface.spelling import activation, write_activation
from anyformer.model import Architecture
from anyformer.parts import Disentangled, LayerNorm, LearnedPosition, RelativeTable, Transform, post_norm
from anyformer.parts.heads import PROJECTIONS, Projection
from anyformer.parts.relative import TERMS, Term
from anyformer.parts.sublayer import head_width

THEIRS: dict[Term, str] = {"content_to_position": "c2p", "position_to_content": "p2c"}
OUTPUT: Table = {"attention.output": "attention.output.dense"}
SECOND: Table = {
    "attention.query": "attention.self.query_proj",
    "attention.key": "attention.self.key_proj",
    "attention.value": "attention.self.value_proj",
    "attention.score_bias.position_key": "attention.self.pos_key_proj",
    "attention.score_bias.position_query": "attention.self.pos_query_proj",
}
FIRST: Table = {
    "attention.query.bias": "attention.self.q_bias",
    "attention.value.bias": "attention.self.v_bias",
    "attention.score_bias.position_key": "attention.self.pos_proj",
    "attention.score_bias.position_query": "attention.self.pos_q_proj",
}
BIASES: tuple[Projection, ...] = ("query", "value", "output")
POOLER = ("pooler.dense", "classifier")
QKV = ("attention.query.weight", "attention.key.weight", "attention.value.weight")


def terms_of(config: Config) -> tuple[Term, ...]:
    """What is compared besides contents: a list, or names with bars between."""
    given = config("pos_att_type", None) or []
    named = [name.strip() for name in given.lower().split("|")] if isinstance(given, str) else given
    strange = sorted(set(named) - set(THEIRS.values()))
    if strange or len(set(named)) < len(named):
        raise HuggingFaceError(f"{config.where}: pos_att_type = {given} is not supported, only c2p and p2c, each once")
    return tuple(term for term in TERMS if THEIRS[term] in named)


def span_of(config: Config) -> int:
    """Distances counted: `max_relative_positions`, or as many as there are positions."""
    given: int = config("max_relative_positions", -1)
    return given if given > 0 else config("max_position_embeddings", 512)


def architecture(
    config: Config,
    norm: LayerNorm,
    scores: Disentangled | None,
    table: RelativeTable | None,
    bias: tuple[Projection, ...] = PROJECTIONS,
) -> Architecture:
    """`norm`: of the layers; `scores`, `table`: the relative positions, if any; `bias`: projections that have one."""
    config.expect("embedding_size", config("hidden_size"))
    config.expect("legacy", True, why="the other head computes the same under other names")
    terms, length = 1 + len(terms_of(config)), config("max_position_embeddings", 512)
    scale = (head_width(config("hidden_size"), config("num_attention_heads"), None) * terms) ** -0.5
    attention, feedforward = sublayers(config, score_bias=scores, scale=scale)
    acted, pooled = (activation(config(name, "gelu")) for name in ("hidden_act", "pooler_hidden_act"))
    config.expect("pooler_hidden_size", config("hidden_size"))
    head = encoder_head(config, Transform(activation=acted, norm=norm_of(config)), pooled=Transform(activation=pooled))
    return encoder(
        config,
        post_norm(norm, attention.but(bias=bias), feedforward, dropout=config("hidden_dropout_prob", 0.1)),
        head,
        types=0,
        position=LearnedPosition(length=length) if config("position_biased_input", True) else None,
        input_norm=norm,
        relative=table,
    )


def read_second(config: Config) -> Architecture:
    config.assume(layer_norm_eps=1e-7)
    config.expect("conv_kernel_size", 0, why="the convolution after the first layer is not there yet")
    config.expect("attention_head_size", config("hidden_size") // config("num_attention_heads"))
    norm, buckets, longest = norm_of(config), config("position_buckets", -1), span_of(config)
    span = buckets if buckets > 0 else longest
    shared, normed = config("share_att_key", False), "layer_norm" in config("norm_rel_ebd", "none").lower()
    if not config("relative_attention", False):
        return architecture(config, norm, None, None)
    terms = terms_of(config)
    scores = Disentangled(
        terms=terms, shared=shared, span=span, max_distance=longest if buckets > 0 else None, bias=() if shared else terms
    )
    return architecture(config, norm, scores, RelativeTable(span=span, norm=norm if normed else None))


def read_first(config: Config) -> Architecture:
    config.assume(layer_norm_eps=1e-7)
    config.expect("talking_head", False)
    norm, span, terms = norm_of(config).but(cast="before_gain"), span_of(config), terms_of(config)
    if not config("relative_attention", False):
        return architecture(config, norm, None, None, BIASES)
    biased = tuple(term for term in terms if term == "position_to_content")
    scores = Disentangled(terms=terms, shared=False, span=span, bias=biased)
    return architecture(config, norm, scores, RelativeTable(span=span), BIASES)


def write(made: Architecture, name: str) -> dict[str, Any]:
    """What both versions write alike; `name`: their class without its task."""
    attention = get(made, "encoder.layer.attention.sublayer")
    factor = round(attention.scale_of(made.width) ** -2 / attention.width_of_head(made.width))
    terms = TERMS[: factor - 1] if attention.score_bias is None else attention.score_bias.terms
    position = made.output_stack.position
    pooled = made.head is not None and made.head.pool is not None
    acted = {"pooler_hidden_act": write_activation(get(made, "head.transform.activation"))} if pooled else {}
    return (
        common(made, name)
        | acted
        | {
            "pos_att_type": [THEIRS[term] for term in terms],
            "relative_attention": attention.score_bias is not None,
            "position_biased_input": position is not None,
            "max_position_embeddings": position.length if position else 512,
        }
    )


def write_second(made: Architecture) -> dict[str, Any]:
    bias = get(made, "encoder.layer.attention.score_bias")
    if bias is None:
        return write(made, "DebertaV2")
    return write(made, "DebertaV2") | {
        "share_att_key": bias.shared,
        "position_buckets": -1 if bias.max_distance is None else bias.span,
        "max_relative_positions": bias.max_distance or bias.span,
        "norm_rel_ebd": "none" if get(made, "encoder.relative.norm") is None else "layer_norm",
    }


def write_first(made: Architecture) -> dict[str, Any]:
    bias = get(made, "encoder.layer.attention.score_bias")
    return write(made, "Deberta") | ({} if bias is None else {"max_relative_positions": bias.span})


OUTSIDE: Table = {
    **EMBEDDINGS,
    "encoder.relative.weight": "encoder.rel_embeddings.weight",
    "encoder.relative.norm": "encoder.LayerNorm",
}


def second_names(made: Architecture) -> Names:
    return encoder_names(made, "deberta", OUTSIDE, head_names(made, pooled=POOLER), SECOND, OUTPUT, FEEDFORWARD, POST_NORMS)


def first_names(made: Architecture) -> Names:
    """Rows of [query; key; value] stand head by head."""
    fused: Table = {QKV: To("attention.self.in_proj.weight", Groups(get(made, "encoder.layer.attention.heads")))}
    head = head_names(made, pooled=POOLER)
    return encoder_names(made, "deberta", OUTSIDE, head, FIRST, fused, OUTPUT, FEEDFORWARD, POST_NORMS)


INERT = ("conv_act", "conv_groups", "pooler_dropout")
UNUSED = (*IGNORED, r"deberta\.embeddings\.position_embeddings\.weight", r"lm_predictions\..*", r"mask_predictions\..*")
FAMILIES = (
    Family("deberta-v2", read_second, write_second, second_names, "DebertaV2ForMaskedLM", inert=INERT, ignored=UNUSED),
    Family("deberta", read_first, write_first, first_names, "DebertaForMaskedLM", inert=INERT, ignored=UNUSED),
)
