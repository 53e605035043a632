"""RoBERTa and its kin: BERT with positions from the padding's id + 1, and a head whose activation is always GELU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bert import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    POST_NORMS,
    common,
    encoder,
    encoder_names,
    norm_of,
    sublayers,
)
from anyformer.huggingface.families.encoder_heads import encoder_head, head_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.model import Architecture
from anyformer.parts import Head, LayerNorm, LearnedPosition, RelativeBuckets, SharedBias, Transform, post_norm, pre_norm

HEAD = ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder")
BIAS = "lm_head.bias"
IGNORED = (r".*position_ids", r"(.*\.)?pooler\..*", r"lm_head\.(decoder\.(weight|bias)|bias)", r"(.*\.)?contact_head\..*")


def position(config: Config) -> LearnedPosition:
    """Rows of the table below the first position are the padding's and one more for each id before it."""
    offset = config("pad_token_id", 1) + 1
    return LearnedPosition(length=config("max_position_embeddings", 512) - offset, offset=offset)


def head(config: Config, norm: LayerNorm) -> Head | None:
    return encoder_head(config, Transform(activation="gelu", norm=norm))


def read(config: Config) -> Architecture:
    norm = norm_of(config)
    block = post_norm(norm, *sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    return encoder(config, block, head(config, norm), position=position(config), input_norm=norm)


def read_prelayernorm(config: Config) -> Architecture:
    norm = norm_of(config)
    block = pre_norm(norm, *sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    return encoder(config, block, head(config, norm), position=position(config), input_norm=norm, final_norm=norm)


def read_xl(config: Config) -> Architecture:
    norm = norm_of(config, 1e-5)
    block = pre_norm(norm, *sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    block = change(block, "feedforward.dropout", 0.0)
    return encoder(config, block, head(config, norm), types=1, position=position(config), final_norm=norm)


def read_mpnet(config: Config) -> Architecture:
    norm = norm_of(config)
    attention, feedforward = sublayers(config)
    config.expect("relative_attention_num_buckets", 32, why="transformers looks up 32 whatever is said")
    config.expect("pad_token_id", 1, why="transformers counts positions from 2 whatever is said")
    buckets = RelativeBuckets(buckets=32, max_distance=128, two_sided=True)
    return encoder(
        config,
        post_norm(norm, attention, feedforward, dropout=config("hidden_dropout_prob", 0.1)),
        head(config, norm),
        types=0,
        position=position(config),
        input_norm=norm,
        score_bias=SharedBias(heads=attention.heads, buckets=buckets),
    )


def writer(name: str, norm: str = "encoder.input_norm") -> Callable[[Architecture], dict[str, Any]]:
    """How a kin with positions counted from the padding's id is written."""

    def write(architecture: Architecture) -> dict[str, Any]:
        length, offset = (get(architecture, f"encoder.position.{field}") for field in ("length", "offset"))
        return common(architecture, name, norm) | {"max_position_embeddings": length + offset, "pad_token_id": offset - 1}

    return write


def write_mpnet(architecture: Architecture) -> dict[str, Any]:
    written = writer("MPNet")(architecture)
    assert written.pop("type_vocab_size") == 0, "MPNet has no types of segments"
    return written


def names(base: str) -> Callable[[Architecture], Names]:
    return lambda architecture: encoder_names(
        architecture, base, EMBEDDINGS, head_names(architecture, HEAD, BIAS), ATTENTION, FEEDFORWARD, POST_NORMS
    )


def pre_norm_names(base: str, final: str, attention: str, feedforward: str) -> Callable[[Architecture], Names]:
    norms: Table = {"attention.norm_before": attention, "feedforward.norm_before": feedforward}
    outside: Table = {**EMBEDDINGS, "encoder.final_norm": final}
    return lambda architecture: encoder_names(
        architecture, base, outside, head_names(architecture, HEAD, BIAS), ATTENTION, FEEDFORWARD, norms
    )


MPNET: Table = {
    "attention.query": "attention.attn.q",
    "attention.key": "attention.attn.k",
    "attention.value": "attention.attn.v",
    "attention.output": "attention.attn.o",
    "step_0_norm_after": "attention.LayerNorm",
    "step_1_norm_after": "output.LayerNorm",
}


def mpnet_names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.score_bias": "encoder.relative_attention_bias"}
    return encoder_names(architecture, "mpnet", outside, head_names(architecture, HEAD, BIAS), MPNET, FEEDFORWARD)


def _family(model_type: str, name: str, base: str = "roberta") -> Family:
    return Family(model_type, read, writer(name), names(base), f"{name}ForMaskedLM", ignored=IGNORED)


FAMILIES = (
    _family("roberta", "Roberta"),
    _family("xlm-roberta", "XLMRoberta"),
    _family("camembert", "Camembert"),
    _family("data2vec-text", "Data2VecText", "data2vec_text"),
    Family(
        "roberta-prelayernorm", read_prelayernorm, writer("RobertaPreLayerNorm"),
        pre_norm_names("roberta_prelayernorm", "LayerNorm", "attention.LayerNorm", "intermediate.LayerNorm"),
        "RobertaPreLayerNormForMaskedLM", ignored=IGNORED,
    ),
    Family(
        "xlm-roberta-xl", read_xl, writer("XLMRobertaXL", "encoder.final_norm"),
        pre_norm_names("roberta", "encoder.LayerNorm", "attention.self_attn_layer_norm", "LayerNorm"),
        "XLMRobertaXLForMaskedLM", ignored=IGNORED,
    ),
    Family("mpnet", read_mpnet, write_mpnet, mpnet_names, "MPNetForMaskedLM", ignored=IGNORED),
)  # fmt: skip
