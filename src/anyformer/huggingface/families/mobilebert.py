"""MobileBERT: narrow layers within a wide stream, whose embeddings are of trigrams."""

from __future__ import annotations

from anyformer.describe import get
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table, To, Transposed
from anyformer.huggingface.words.bert_line import (
    EMBEDDINGS,
    IGNORED,
    bert_head,
    encoder,
    encoder_names,
    learned_position,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.model import Architecture
from anyformer.parts import (
    Affine,
    Attention,
    Bidirectional,
    Bottleneck,
    FeedForward,
    LayerNorm,
    NarrowTable,
    Projection,
    Softmax,
    post_norm,
)


def read(config: Config) -> Architecture:
    config.assume(vocab_size=30_522, hidden_size=512, num_hidden_layers=24, num_attention_heads=4, intermediate_size=512)
    config.assume(hidden_act="relu", hidden_dropout_prob=0.0)
    config.expect_all(trigram_input=True, use_bottleneck=True, use_bottleneck_attention=False, classifier_activation=True)
    config.expect("key_query_shared_bottleneck", True, why="queries and keys without a bottleneck are not known here")
    config.expect("normalization_type", "no_norm", why="the norms of other models have several epsilons")
    config.expect("tie_word_embeddings", True, why="half of the head is the table of the embeddings")
    act = words.activation(config, default="relu", at="bottleneck.network.activation")
    block = post_norm(Affine(), _bottleneck(config, act), dropout=config("hidden_dropout_prob", 0.0))
    made = encoder(config, block, None, position=learned_position(config), input_norm=Affine())
    narrow = config("embedding_size", 128, "embedding.narrow.width")
    if narrow >= made.width:
        raise config.refused("embedding_size", narrow, "less than hidden_size")
    head = bert_head(config, "MobileBert", LayerNorm(eps=config("layer_norm_eps", 1e-12, "head.transform.norm.eps")), act)
    if head is not None and head.tied:
        head = head.but(own=made.width - narrow)
    return made.but(embedding=made.embedding.but(narrow=NarrowTable(width=narrow, around=1)), head=head)


def _bottleneck(config: Config, act: str) -> Bottleneck:
    return Bottleneck(
        width=config("intra_bottleneck_size", 128, "bottleneck.width"),
        attention=Attention(
            heads=config("num_attention_heads", at="bottleneck.attention.heads"),
            mask=Bidirectional(),
            project=Projection(bias=words.ALL),
            weigh=Softmax(dropout=config("attention_probs_dropout_prob", 0.1, "bottleneck.attention.dropout")),
        ),
        network=FeedForward(
            width=config("intermediate_size", at="bottleneck.network.width"), activation=act, gated=False, bias=("up", "down")
        ),
        networks=config("num_feedforward_networks", 4, "bottleneck.networks"),
        norm=Affine(),
        bias=True,
    )


def names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "embedding.narrow.projection": "embeddings.embedding_transformation"}
    head = head_names(architecture, pooled=("mobilebert.pooler.dense", "classifier"))
    head = {**head, "head.own": To("cls.predictions.dense.weight", Transposed())}
    block = next(iter(architecture.output_stack.variants.values()))
    last = get(block, "bottleneck.networks") - 1
    layer = {
        **_LAYER,
        **{ours: theirs for i in range(last + 1) for ours, theirs in _network(i, "" if i == last else f"ffn.{i}.")},
    }
    return encoder_names(architecture, "mobilebert", outside, head, layer)


def _network(number: int, prefix: str) -> list[tuple[str, str]]:
    """Names of one of the networks of a layer."""
    return [
        (f"bottleneck.networks.{number}.up", f"{prefix}intermediate.dense"),
        (f"bottleneck.networks.{number}.down", f"{prefix}output.dense"),
        (f"bottleneck.norms.network_{number}", f"{prefix}output.LayerNorm"),
    ]


_LAYER: Table = {
    "bottleneck.narrow": "bottleneck.input.dense",
    "bottleneck.norms.narrow": "bottleneck.input.LayerNorm",
    "bottleneck.shared": "bottleneck.attention.dense",
    "bottleneck.norms.shared": "bottleneck.attention.LayerNorm",
    **{f"bottleneck.attention.{side}": f"attention.self.{side}" for side in words.QKV},
    "bottleneck.attention.output": "attention.output.dense",
    "bottleneck.norms.attention": "attention.output.LayerNorm",
    "bottleneck.widen": "output.bottleneck.dense",
    "step_0_norm_after": "output.bottleneck.LayerNorm",
}
FAMILIES = (Family("mobilebert", read, names, "MobileBertForMaskedLM", inert=("true_hidden_size",), ignored=IGNORED),)
