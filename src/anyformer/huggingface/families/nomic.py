"""Nomic BERT, GTE and Jina Embeddings 3: BERT with rotary positions, gated or not."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.words.bert_line import bert_head, encoder, encoder_names
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.huggingface.words.names import QKV
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    FeedForward,
    Softmax,
    post_norm,
)


def read_nomic(config: Config) -> Architecture:
    config.assume(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    width, network = config("head_dim", None), words.feedforward(config)
    return _encoder(config, "NomicBert", 1000.0, network, types=2, act=network.activation, head_width=width)


def read_gte(config: Config) -> Architecture:
    config.assume(attention_probs_dropout_prob=0.0)
    network = words.feedforward(config, default="gelu", dropout=config("hidden_dropout_prob", 0.1))
    return _encoder(config, "Gte", 160_000.0, network.but(bias=("down",)), bias=words.ALL)


def read_jina(config: Config) -> Architecture:
    config.assume(layer_norm_eps=1e-5)
    return _encoder(config, "JinaEmbeddingsV3", 20_000.0, words.plain(config), bias=words.ALL)


def _encoder(
    config: Config, name: str, theta: float, network: FeedForward, *, types: int = 1, act: str = "gelu", **fields: Any
) -> Architecture:
    """The model; `theta`, `types`: defaults of absent keys; `act`: of the head; `fields`: more fields of the attention."""
    config.assume(type_vocab_size=types)
    heads, rate = config("num_attention_heads"), config("attention_probs_dropout_prob", 0.1)
    rotary = words.rotary(config, theta=theta)
    attention = Attention(heads=heads, mask=Bidirectional(), place=rotary, weigh=Softmax(dropout=rate)).but(**fields)
    norm = words.layer_norm(config, 1e-12)
    block = post_norm(norm, attention, network, dropout=config("hidden_dropout_prob", 0.1))
    return encoder(config, block, bert_head(config, name, norm, act), types=0, input_norm=norm)


_EMBEDDINGS: Table = {
    "embedding": "embeddings.word_embeddings",
    "embedding.types": "embeddings.token_type_embeddings.weight",
    "encoder.input_norm": "emb_ln",
}
_NORMS: Table = {"step_0_norm_after": "norm1", "step_1_norm_after": "norm2"}
_NOMIC: Table = {
    **_NORMS,
    QKV: To("attn.Wqkv", Rows()),
    "attention.output": "attn.out_proj",
    "feedforward.up": "mlp.fc11",
    "feedforward.gate": "mlp.fc12",
    "feedforward.down": "mlp.fc2",
}
_JINA: Table = {
    **_NORMS,
    QKV: To("mixer.Wqkv", Rows()),
    "attention.output": "mixer.out_proj",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}
_GTE: Table = {
    QKV: To("attention.qkv_proj", Rows()),
    "attention.output": "attention.o_proj",
    "step_0_norm_after": "attn_ln",
    ("feedforward.up", "feedforward.gate"): To("mlp.up_gate_proj", Rows()),
    "feedforward.down": "mlp.down_proj",
    "step_1_norm_after": "mlp_ln",
}


def nomic_names(architecture: Architecture) -> Names:
    modules = ("cls.predictions.transform.dense", "cls.predictions.transform.layer_norm", "cls.predictions.decoder")
    head = head_names(architecture, modules, pooled=("nomic_bert.pooler.dense", "classifier"))
    return encoder_names(architecture, "nomic_bert", _EMBEDDINGS, head, _NOMIC, path="encoder.layers.{i}.")


def gte_names(architecture: Architecture) -> Names:
    outside: Table = {**_EMBEDDINGS, "encoder.input_norm": "embeddings.LayerNorm"}
    modules, pooled = ("lm_head.dense", "lm_head.norm", "lm_head.decoder"), ("gte.pooler.dense", "classifier")
    return encoder_names(architecture, "gte", outside, head_names(architecture, modules, "lm_head.decoder.bias", pooled), _GTE)


def jina_names(architecture: Architecture) -> Names:
    head = head_names(architecture, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "lm_head.bias")
    return encoder_names(architecture, "roberta", _EMBEDDINGS, head, _JINA, path="encoder.layers.{i}.")


_IGNORED = (
    r".*position_ids", r"(.*\.)?pooler\..*", r"cls\.predictions\.(decoder\.(weight|bias)|bias)",
    r"lm_head\.(decoder\.(weight|bias)|bias)",
)  # fmt: skip
FAMILIES = (
    Family("nomic_bert", read_nomic, nomic_names, "NomicBertForMaskedLM", ignored=_IGNORED),
    Family("gte", read_gte, gte_names, "GteForMaskedLM", ignored=_IGNORED),
    Family("jina_embeddings_v3", read_jina, jina_names, "JinaEmbeddingsV3ForMaskedLM", ignored=_IGNORED),
)
