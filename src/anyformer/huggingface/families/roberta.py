"""RoBERTa and its kin: BERT with positions that begin after the id of padding, and a head whose activation is always GELU."""

from __future__ import annotations

from functools import partial

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    POST_NORMS,
    bert_head,
    bert_sublayers,
    encoder,
    encoder_names,
    position_after_padding,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.huggingface.words.names import projections
from anyformer.model import Architecture
from anyformer.parts import RelativeBuckets, SharedBias, post_norm, pre_norm


def read(name: str, config: Config) -> Architecture:
    side, mask = words.stack_and_mask(config, "is_decoder")
    norm, causal = words.layer_norm(config, 1e-12), "ForCausalLM" if side == "decoder" else ""
    block = post_norm(norm, *bert_sublayers(config, mask=mask), dropout=config("hidden_dropout_prob", 0.1))
    head = bert_head(config, name, norm, "gelu", causal=causal)
    return encoder(config, block, head, side=side, position=position_after_padding(config), input_norm=norm)


def read_prelayernorm(config: Config) -> Architecture:
    norm = words.layer_norm(config, 1e-12)
    block = pre_norm(norm, *bert_sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    head, position = bert_head(config, "RobertaPreLayerNorm", norm, "gelu"), position_after_padding(config)
    return encoder(config, block, head, position=position, input_norm=norm, final_norm=norm)


def read_xl(config: Config) -> Architecture:
    config.assume(max_position_embeddings=514)
    norm = words.layer_norm(config, 1e-5)
    block = pre_norm(norm, *bert_sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    head, position = bert_head(config, "XLMRobertaXL", norm, "gelu"), position_after_padding(config)
    block = change(block, "feedforward.dropout", 0.0)
    return encoder(config, block, head, types=1, position=position, final_norm=norm)


def read_mpnet(config: Config) -> Architecture:
    norm, position = words.layer_norm(config, 1e-12), position_after_padding(config)
    attention, network = bert_sublayers(config)
    config.expect("relative_attention_num_buckets", 32, why="transformers always uses 32")
    config.expect("pad_token_id", 1, why="transformers always counts positions from 2")
    buckets = RelativeBuckets(buckets=32, max_distance=128, two_sided=True)
    block = post_norm(norm, attention, network, dropout=config("hidden_dropout_prob", 0.1))
    bias, head = SharedBias(heads=attention.heads, buckets=buckets), bert_head(config, "MPNet", norm, "gelu")
    return encoder(config, block, head, types=None, position=position, input_norm=norm, score_bias=bias)


def read_integer(config: Config) -> Architecture:
    """I-BERT before its numbers become integers, as it is published: RoBERTa."""
    config.expect("is_decoder", False, why="transformers has no class of a decoder for I-BERT")
    config.expect("quant_mode", False, why="integers in place of real numbers are not known here")
    config.assume(tie_word_embeddings=True)
    config.expect("hidden_act", "gelu", why="transformers knows no other for I-BERT")
    return read("IBert", config)


def _names(base: str, outside: Table, layer: tuple[Table, ...], architecture: Architecture) -> Names:
    head = head_names(architecture, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "lm_head.bias")
    return encoder_names(architecture, base, {**EMBEDDINGS, **outside}, head, *layer)


def _pre_norms(attention: str, feedforward: str) -> tuple[Table, ...]:
    return ATTENTION, FEEDFORWARD, {"attention.norm_before": attention, "feedforward.norm_before": feedforward}


_MPNET: Table = {
    **projections("attention.attn.*"),
    "step_0_norm_after": "attention.LayerNorm",
    "step_1_norm_after": "output.LayerNorm",
}
_IGNORED = (r".*position_ids", r"(.*\.)?pooler\..*", r"lm_head\.(decoder\.(weight|bias)|bias)", r"(.*\.)?contact_head\..*")


def _family(model_type: str, name: str, base: str = "roberta") -> Family:
    names = partial(_names, base, {}, (ATTENTION, FEEDFORWARD, POST_NORMS))
    return Family(model_type, partial(read, name), names, f"{name}ForMaskedLM", ignored=_IGNORED)


FAMILIES = (
    _family("roberta", "Roberta"),
    _family("xlm-roberta", "XLMRoberta"),
    _family("camembert", "Camembert"),
    _family("data2vec-text", "Data2VecText", "data2vec_text"),
    Family(
        "roberta-prelayernorm",
        read_prelayernorm,
        partial(
            _names,
            "roberta_prelayernorm",
            {"encoder.final_norm": "LayerNorm"},
            _pre_norms("attention.LayerNorm", "intermediate.LayerNorm"),
        ),
        "RobertaPreLayerNormForMaskedLM",
        ignored=_IGNORED,
    ),
    Family(
        "xlm-roberta-xl",
        read_xl,
        partial(
            _names,
            "roberta",
            {"encoder.final_norm": "encoder.LayerNorm"},
            _pre_norms("attention.self_attn_layer_norm", "LayerNorm"),
        ),
        "XLMRobertaXLForMaskedLM",
        ignored=_IGNORED,
    ),
    Family(
        "mpnet",
        read_mpnet,
        partial(_names, "mpnet", {"encoder.score_bias": "encoder.relative_attention_bias"}, (_MPNET, FEEDFORWARD)),
        "MPNetForMaskedLM",
        ignored=_IGNORED,
    ),
    Family(
        "ibert",
        read_integer,
        partial(_names, "ibert", {}, (ATTENTION, FEEDFORWARD, POST_NORMS)),
        "IBertForMaskedLM",
        inert=("force_dequant",),
        # Buffers of its integers.
        ignored=(*_IGNORED, r".*\.(\w+_scaling_factor|\w+_integer|x_min|x_max|shift)"),
    ),
)
