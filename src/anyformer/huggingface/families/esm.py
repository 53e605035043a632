"""ESM: a pre-norm BERT for proteins, with rotary or learned positions and embeddings rescaled by the share of masked tokens."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    FEEDFORWARD,
    bert_head,
    bert_sublayers,
    encoder_names,
    position_after_padding,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.model import Architecture
from anyformer.parts import Embedding, MaskedTokens, Rotary, pre_norm


def read(config: Config) -> Architecture:
    config.assume(max_position_embeddings=1026)
    config.expect_all(hidden_act="gelu", is_decoder=False)
    config.expect("is_folding_model", False, why="ESMFold is more than a transformer")
    config.expect("position_embedding_type", "absolute", "rotary")
    norm, theta = words.layer_norm(config, 1e-12), config("rope_theta", 10_000.0, "attention.rotary.theta")
    kind = config("position_embedding_type", "absolute", lambda t: "rotary" if t("attention.rotary") else "absolute")
    turned = Rotary(theta=theta, rotate_in="fp32") if kind == "rotary" else None
    position = None if turned else position_after_padding(config)
    config.put(pad_token_id=1)
    token = config("mask_token_id", None, "embedding.masked.token")
    masked = config("token_dropout", False, lambda target: target("embedding.masked") is not None)
    sees = words.has_part("stack.input_norm")
    around = {
        "position": position,
        "input_norm": norm if config("emb_layer_norm_before", None, sees) else None,
        "final_norm": norm,
    }
    dropout = config("hidden_dropout_prob", 0.1, "attention.dropout")
    return Architecture(
        width=config("hidden_size"),
        embedding=Embedding(vocab=config("vocab_size"), masked=MaskedTokens(token=token) if masked else None),
        encoder=words.stacked(
            words.repeated(config, pre_norm(norm, *bert_sublayers(config, rotary=turned), dropout=dropout)), **around
        ),
        head=bert_head(config, "Esm", norm, "gelu"),
        initialisation=words.initialisation(config),
    )


def names(architecture: Architecture) -> Names:
    head = head_names(architecture, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "lm_head.bias")
    if "head.bias" in head:
        head = {**head, "head.bias": "lm_head.bias"}
    return encoder_names(architecture, "esm", _OUTSIDE, head, ATTENTION, FEEDFORWARD, _NORMS)


_OUTSIDE: Table = {
    "embedding": "embeddings.word_embeddings",
    "encoder.position": "embeddings.position_embeddings",
    "encoder.input_norm": "embeddings.layer_norm",
    "encoder.final_norm": "encoder.emb_layer_norm_after",
}
_NORMS: Table = {"attention.norm_before": "attention.LayerNorm", "feedforward.norm_before": "LayerNorm"}
_IGNORED = (
    r".*position_ids", r"(.*\.)?contact_head\..*", r"(.*\.)?pooler\..*", r"lm_head\.decoder\.weight",
    r"(.*\.)?embeddings\.position_embeddings\.weight",
)  # fmt: skip
FAMILIES = (
    Family(
        "esm",
        read,
        names,
        "EsmForMaskedLM",
        inert=("esmfold_config", "mask_token_id", "vocab_list"),
        ignored=_IGNORED,
    ),
)
