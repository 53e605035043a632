"""MarkupLM: BERT with RoBERTa's positions, whose tokens carry the path of tags that leads to their word.

transformers' class takes it as `xpath_tags_seq` and `xpath_subs_seq`; here it is `types` of a call, behind the kind of the
segment. It has no class with a head for tokens.
"""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Stacked, Table, To
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    bert_sublayers,
    encoder,
    encoder_names,
    position_after_padding,
)
from anyformer.huggingface.words.encoder_heads import TANH, TOKENS, classes, head_names, head_of
from anyformer.model import Architecture
from anyformer.parts import TreePlacedEmbedding, post_norm

_KEYS = {
    "max_depth": ("depth", 50),
    "max_xpath_tag_unit_embeddings": ("tags", 256),
    "max_xpath_subs_unit_embeddings": ("subscripts", 1024),
    "xpath_unit_hidden_size": ("features", 32),
    "tag_pad_id": ("no_tag", 216),
    "subs_pad_id": ("no_subscript", 1001),
}
"""Key -> our field and the class's default."""


def read(config: Config) -> Architecture:
    config.assume(
        vocab_size=30_522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        pad_token_id=0, max_position_embeddings=512,
    )  # fmt: skip
    config.expect_all(is_decoder=False, add_cross_attention=False)
    norm = words.layer_norm(config, 1e-12)
    block = post_norm(norm, *bert_sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    heads = {"ForSequenceClassification": classes(config, pool="first", transform=TANH), TOKENS: classes(config)}
    made = encoder(config, block, head_of(config, "MarkupLM", heads), position=position_after_padding(config), input_norm=norm)
    places = {ours: config(key, usual, f"embedding.{ours}") for key, (ours, usual) in _KEYS.items()}
    fields = {**dict(made.embedding), "kind": "tree_placed_tokens", "inner": 4 * made.width, **places}
    return made.but(embedding=TreePlacedEmbedding(**fields))


_PLACES = "embeddings.xpath_embeddings"
_TABLES: Table = {
    "embedding.places.tags": To(f"{_PLACES}.xpath_tag_sub_embeddings.{{x}}.weight", Stacked()),
    "embedding.places.subscripts": To(f"{_PLACES}.xpath_subs_sub_embeddings.{{x}}.weight", Stacked()),
    "embedding.places.up": f"{_PLACES}.xpath_unitseq2_inner",
    "embedding.places.down": f"{_PLACES}.inner2emb",
}


def names(architecture: Architecture) -> Names:
    head = head_names(architecture, pooled=("markuplm.pooler.dense", "classifier"))
    return encoder_names(architecture, "markuplm", {**EMBEDDINGS, **_TABLES}, head, ATTENTION, FEEDFORWARD, POST_NORMS)


FAMILIES = (
    Family(
        "markuplm",
        read,
        names,
        "MarkupLMForSequenceClassification",
        # A matrix with which nothing is computed.
        ignored=(*IGNORED, r"(.*\.)?xpath_unitseq2_embeddings\..*"),
    ),
)
