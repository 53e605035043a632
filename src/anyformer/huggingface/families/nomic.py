"""Nomic BERT, GTE and Jina Embeddings 3: BERT with rotary positions, gated or not."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bert import common, encoder_names, norm_of
from anyformer.huggingface.families.encoder_heads import encoder_head, head_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.spelling import (
    activation,
    initialisation,
    longest,
    read_rotary,
    rope_parameters,
    write_rotary,
)
from anyformer.model import Architecture, encoder_only
from anyformer.parts import Attention, Bidirectional, Embedding, FeedForward, Transform, post_norm
from anyformer.parts.heads import PROJECTIONS, Projection

QKV = ("attention.query", "attention.key", "attention.value")
EMBEDDINGS: Table = {
    "embedding": "embeddings.word_embeddings",
    "embedding.types": "embeddings.token_type_embeddings.weight",
    "encoder.input_norm": "emb_ln",
}
NORMS: Table = {"step_0_norm_after": "norm1", "step_1_norm_after": "norm2"}
NOMIC: Table = {
    **NORMS,
    QKV: To("attn.Wqkv", Rows()),
    "attention.output": "attn.out_proj",
    "feedforward.up": "mlp.fc11",
    "feedforward.gate": "mlp.fc12",
    "feedforward.down": "mlp.fc2",
}
JINA: Table = {
    **NORMS,
    QKV: To("mixer.Wqkv", Rows()),
    "attention.output": "mixer.out_proj",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}
GTE: Table = {
    QKV: To("attention.qkv_proj", Rows()),
    "attention.output": "attention.o_proj",
    "step_0_norm_after": "attn_ln",
    ("feedforward.up", "feedforward.gate"): To("mlp.up_gate_proj", Rows()),
    "feedforward.down": "mlp.down_proj",
    "step_1_norm_after": "mlp_ln",
}


def attention_of(config: Config, theta: float, bias: tuple[Projection, ...], **fields: Any) -> Attention:
    """Attention both ways, rotated with base `theta` where nothing is said."""
    return Attention(
        heads=config("num_attention_heads"),
        bias=bias,
        rotary=read_rotary(rope_parameters(config, theta=theta)),
        mask=Bidirectional(),
        dropout=config("attention_probs_dropout_prob", 0.1),
        **fields,
    )


def rotary_bert(config: Config, attention: Attention, feedforward: FeedForward, *, types: int, head: str) -> Architecture:
    """A BERT of these sublayers; `types` where nothing is said; `head`: activation of the head."""
    norm, dropout = norm_of(config), config("hidden_dropout_prob", 0.1)
    return encoder_only(
        Embedding(vocab=config("vocab_size"), types=config("type_vocab_size", types)),
        config("hidden_size"),
        [post_norm(norm, attention, feedforward, dropout=dropout)] * config("num_hidden_layers"),
        input_norm=norm,
        dropout=dropout,
        head=encoder_head(config, Transform(activation=head, norm=norm)),
        initialisation=initialisation(config),
    )


def read_nomic(config: Config) -> Architecture:
    config.assume(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    acted = activation(config("hidden_act", "silu"))
    attention = attention_of(config, 1000.0, (), head_width=config("head_dim", None))
    feedforward = FeedForward(width=config("intermediate_size"), activation=acted)
    return rotary_bert(config, attention, feedforward, types=2, head=acted)


def read_gte(config: Config) -> Architecture:
    config.assume(attention_probs_dropout_prob=0.0)
    feedforward = FeedForward(
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", "gelu")),
        bias=("down",),
        dropout=config("hidden_dropout_prob", 0.1),
    )
    return rotary_bert(config, attention_of(config, 160_000.0, PROJECTIONS), feedforward, types=1, head="gelu")


def read_jina(config: Config) -> Architecture:
    config.assume(layer_norm_eps=1e-5)
    feedforward = FeedForward(
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", "gelu")),
        gated=False,
        bias=("up", "down"),
    )
    return rotary_bert(config, attention_of(config, 20_000.0, PROJECTIONS), feedforward, types=1, head="gelu")


def write(architecture: Architecture, name: str) -> dict[str, Any]:
    """`name`: their class without its task."""
    return common(architecture, name) | {
        "rope_parameters": write_rotary(get(architecture, "encoder.layer.attention.rotary")),
        "max_position_embeddings": longest(architecture),
    }


def write_nomic(architecture: Architecture) -> dict[str, Any]:
    return write(architecture, "NomicBert") | {"head_dim": get(architecture, "encoder.layer.attention.head_width")}


def nomic_names(architecture: Architecture) -> Names:
    modules = ("cls.predictions.transform.dense", "cls.predictions.transform.layer_norm", "cls.predictions.decoder")
    head = head_names(architecture, modules, "cls.predictions.bias", ("nomic_bert.pooler.dense", "classifier"))
    return encoder_names(architecture, "nomic_bert", EMBEDDINGS, head, NOMIC, path="encoder.layers.{i}.")


def gte_names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.input_norm": "embeddings.LayerNorm"}
    modules, pooled = ("lm_head.dense", "lm_head.norm", "lm_head.decoder"), ("gte.pooler.dense", "classifier")
    head = head_names(architecture, modules, "lm_head.decoder.bias", pooled)
    return encoder_names(architecture, "gte", outside, head, GTE)


def jina_names(architecture: Architecture) -> Names:
    head = head_names(architecture, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "lm_head.bias")
    return encoder_names(architecture, "roberta", EMBEDDINGS, head, JINA, path="encoder.layers.{i}.")


IGNORED = (
    r".*position_ids", r".*inv_freq", r"(.*\.)?pooler\..*", r"cls\.predictions\.(decoder\.(weight|bias)|bias)",
    r"lm_head\.(decoder\.(weight|bias)|bias)",
)  # fmt: skip
FAMILIES = (
    Family("nomic_bert", read_nomic, write_nomic, nomic_names, "NomicBertForMaskedLM", ignored=IGNORED),
    Family("gte", read_gte, lambda made: write(made, "Gte"), gte_names, "GteForMaskedLM", ignored=IGNORED),
    Family(
        "jina_embeddings_v3", read_jina, lambda made: write(made, "JinaEmbeddingsV3"), jina_names,
        "JinaEmbeddingsV3ForMaskedLM", ignored=IGNORED,
    ),
)  # fmt: skip
