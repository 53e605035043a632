"""DeBERTa, versions 1 to 3: BERT whose scores also compare contents with relative positions.

Version 3 has the architecture of version 2. The dropout of the table of relative positions, which transformers has, is not
described here.
"""

from __future__ import annotations

from typing import Any, Literal

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import has_part
from anyformer.huggingface.rules import GroupedRows, Names, Table, To
from anyformer.huggingface.target import Place, Target
from anyformer.huggingface.words.bert_line import (
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    bert_head,
    bert_sublayers,
    encoder,
    encoder_names,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.model import Architecture
from anyformer.parts import Disentangled, LayerNorm, LearnedPosition, RelativeTable, Transform, post_norm

Term = Literal["content_to_position", "position_to_content"]
_TERMS: dict[Term, str] = {"content_to_position": "c2p", "position_to_content": "p2c"}
"""Our name of a term of the scores -> transformers'."""
_SCORES = "attention.score_bias"


def read_second(config: Config) -> Architecture:
    config.assume(layer_norm_eps=1e-7)
    config.expect("conv_kernel_size", 0, why="the convolution after the first layer is not described here")
    config.expect("attention_head_size", config("hidden_size") // config("num_attention_heads"))
    norm, terms = words.layer_norm(config, 1e-7), _terms(config)
    buckets = config("position_buckets", -1, lambda t: t(f"{_SCORES}.span") if t(f"{_SCORES}.max_distance") else -1)
    longest = _span(config, lambda target: target(f"{_SCORES}.max_distance") or target(f"{_SCORES}.span"))
    span, most = (buckets, longest) if buckets > 0 else (longest, None)
    shared = config("share_att_key", False, f"{_SCORES}.shared")
    normed = config("norm_rel_ebd", "none", lambda t: "none" if t("stack.relative.norm") is None else "layer_norm").lower()
    bias = () if shared else terms
    scores = Disentangled(terms=terms, shared=shared, span=span, max_distance=most, bias=bias) if _relative(config) else None
    table = RelativeTable(span=span, norm=norm if "layer_norm" in normed else None)
    return _encoder(config, "DebertaV2", norm, scores, table if scores else None)


def read_first(config: Config) -> Architecture:
    config.assume(layer_norm_eps=1e-7)
    config.expect("talking_head", False)
    norm, terms = words.layer_norm(config, 1e-7, cast="before_gain"), _terms(config)
    span = _span(config, lambda target: target(f"{_SCORES}.span"))
    bias = tuple(term for term in terms if term == "position_to_content")
    scores = Disentangled(terms=terms, shared=False, span=span, bias=bias) if _relative(config) else None
    table = RelativeTable(span=span) if scores else None
    return _encoder(config, "Deberta", norm, scores, table, bias=("query", "value", "output"))


def _relative(config: Config) -> bool:
    relative = bool(config("relative_attention", False, has_part(_SCORES)))
    if relative and not _terms(config):
        raise HuggingFaceError(
            f"{config.where}: pos_att_type is empty beside relative_attention = true, a table that no score reads, "
            f"which is not supported; c2p or p2c would read it, and relative_attention = false has none"
        )
    return relative


def _terms(config: Config) -> tuple[Term, ...]:
    """The terms of the scores besides contents: a list, or names with bars between."""
    given = config("pos_att_type", None, lambda target: [_TERMS[term] for term in _compared(target)]) or []
    named = [name.strip() for name in given.lower().split("|")] if isinstance(given, str) else given
    unknown = sorted(set(named) - set(_TERMS.values()))
    if unknown or len(set(named)) < len(named):
        raise HuggingFaceError(f"{config.where}: pos_att_type = {given} is not supported, only c2p and p2c, without repetition")
    return tuple(term for term, theirs in _TERMS.items() if theirs in named)


def _compared(target: Target) -> tuple[Term, ...]:
    """The terms; without relative positions as many as the scale of the scores implies."""
    attention = target("attention.sublayer")
    if target(_SCORES) is not None:
        return tuple(target(f"{_SCORES}.terms"))
    width = target.architecture.width
    return tuple(_TERMS)[: round(attention.scale_of(width) ** -2 / attention.width_of_head(width)) - 1]


def _span(config: Config, at: Place) -> int:
    """The largest distance: `max_relative_positions`, or the number of positions."""
    given: int = config("max_relative_positions", -1, at)
    return given if given > 0 else config("max_position_embeddings", 512)


def _encoder(
    config: Config, name: str, norm: LayerNorm, scores: Disentangled | None, table: RelativeTable | None, **fields: Any
) -> Architecture:
    """The model; `norm`: of the layers; `scores`, `table`: relative positions; `fields`: more fields of the attention."""
    config.expect_all(embedding_size=config("hidden_size"), pooler_hidden_size=config("hidden_size"))
    config.expect("legacy", True, why="the other head computes the same under other names")
    width = words.head_width(config, config("hidden_size"), config("num_attention_heads"))
    scale = (width * (1 + len(_terms(config)))) ** -0.5
    sublayers = bert_sublayers(config, score_bias=scores, scale=scale, **fields)
    pooled = words.activation(config, "pooler_hidden_act", "gelu", "head.transform.activation")
    head = bert_head(config, name, words.layer_norm(config, 1e-7), pooled=Transform(activation=pooled))
    block = post_norm(norm, *sublayers, dropout=config("hidden_dropout_prob", 0.1))
    length = config("max_position_embeddings", 512, lambda target: target.get("stack.position.length", 512))
    absolute = config("position_biased_input", True, has_part("stack.position"))
    position = LearnedPosition(length=length) if absolute else None
    return encoder(config, block, head, types=0, position=position, input_norm=norm, relative=table)


_SECOND: Table = {
    **{f"attention.{side}": f"attention.self.{side}_proj" for side in words.QKV},
    "attention.score_bias.position_key": "attention.self.pos_key_proj",
    "attention.score_bias.position_query": "attention.self.pos_query_proj",
}
_FIRST: Table = {
    "attention.query.bias": "attention.self.q_bias",
    "attention.value.bias": "attention.self.v_bias",
    "attention.score_bias.position_key": "attention.self.pos_proj",
    "attention.score_bias.position_query": "attention.self.pos_q_proj",
}
_OUTPUT: Table = {"attention.output": "attention.output.dense"}
_OUTSIDE: Table = {
    **EMBEDDINGS,
    "encoder.relative.weight": "encoder.rel_embeddings.weight",
    "encoder.relative.norm": "encoder.LayerNorm",
}


def second_names(made: Architecture) -> Names:
    head = head_names(made, pooled=("pooler.dense", "classifier"))
    return encoder_names(made, "deberta", _OUTSIDE, head, _SECOND, _OUTPUT, FEEDFORWARD, POST_NORMS)


def first_names(made: Architecture) -> Names:
    """Names of the weights, with rows of [query; key; value] head by head."""
    rows = tuple(f"attention.{side}.weight" for side in words.QKV)
    fused: Table = {rows: To("attention.self.in_proj.weight", GroupedRows(Target(made)("attention.heads")))}
    head = head_names(made, pooled=("pooler.dense", "classifier"))
    return encoder_names(made, "deberta", _OUTSIDE, head, _FIRST, fused, _OUTPUT, FEEDFORWARD, POST_NORMS)


_INERT = ("conv_act", "conv_groups", "pooler_dropout")
_IGNORED = (*IGNORED, r"deberta\.embeddings\.position_embeddings\.weight", r"lm_predictions\..*", r"mask_predictions\..*")
FAMILIES = (
    Family("deberta-v2", read_second, second_names, "DebertaV2ForMaskedLM", inert=_INERT, ignored=_IGNORED),
    Family("deberta", read_first, first_names, "DebertaForMaskedLM", inert=_INERT, ignored=_IGNORED),
)
