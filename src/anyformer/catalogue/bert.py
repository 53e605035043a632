"""The BERT line: post-norm encoders with learned positions, trained on masked or replaced tokens, or to embed sentences."""

from __future__ import annotations

from functools import partial
from typing import Literal

from anyformer.catalogue.entry import Entry, Size
from anyformer.describe import change, change_all
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Affine,
    Attention,
    Bidirectional,
    Block,
    Bottleneck,
    Disentangled,
    Embedding,
    FeedForward,
    FourierMixing,
    Head,
    HeadGroups,
    Initialisation,
    InputProjection,
    LayerNorm,
    LearnedPosition,
    NarrowTable,
    NetworkGroups,
    Normal,
    Projection,
    RelativeTable,
    Score,
    Softmax,
    SpanConvolution,
    Transform,
    post_norm,
)

SMALL_NORMAL = Initialisation(matrix=Normal(std=0.02))


def masked_head(norm: LayerNorm, activation: str) -> Head:
    """A dense layer with a norm, then the embedding's table and a bias for every token, as in the released code of BERT."""
    return Head(tied=True, bias=True, transform=Transform(activation=activation, norm=norm))


def post_norm_encoder(norm: LayerNorm, attention: Attention, ffn: int, activation: str, dropout: float) -> Block:
    """BERT's layer around an attention."""
    feedforward = FeedForward(width=ffn, activation=activation, gated=False, bias=("up", "down"))
    return post_norm(norm, attention.but(mask=Bidirectional(), dropout=dropout), feedforward, dropout=dropout)


def bert(
    *,
    width: int,
    depth: int,
    heads: int,
    ffn: int,
    embedding: int | None = None,
    vocab: int = 30_522,
    types: int = 2,
    offset: int = 0,
    eps: float = 1e-12,
    activation: str = "gelu",
    dropout: float = 0.1,
    head: Head | Literal["masked"] = "masked",
) -> Architecture:
    """Devlin et al. 2018 (arXiv 1810.04805), section 3. RoBERTa (1907.11692): one kind of token, positions counted from 2."""
    norm = LayerNorm(eps=eps)
    attention = Attention(heads=heads, project=Projection(bias=("query", "key", "value", "output")))
    return encoder_only(
        Embedding(vocab=vocab, types=types),
        width,
        [post_norm_encoder(norm, attention, ffn, activation, dropout)] * depth,
        embedding_width=embedding,
        input_projection=InputProjection() if embedding else None,
        position=LearnedPosition(length=512, offset=offset),
        input_norm=norm,
        dropout=dropout,
        head=masked_head(norm, activation) if head == "masked" else head,
        initialisation=SMALL_NORMAL,
    )


def electra(*, width: int, depth: int, heads: int, ffn: int, embedding: int | None = None) -> Architecture:
    """Clark et al. 2020 (arXiv 2003.10555), section 2: BERT that says of every token whether it was replaced.

    Small has narrow embeddings.
    """
    head = Head(outputs=1, bias=True, transform=Transform(activation="gelu", width=width))
    return bert(width=width, depth=depth, heads=heads, ffn=ffn, embedding=embedding, head=head)


def distilbert(*, width: int, depth: int, heads: int, ffn: int) -> Architecture:
    """Sanh et al. 2019 (arXiv 1910.01108), section 2: no token types, and no dropout of attention weights."""
    return change(bert(width=width, depth=depth, heads=heads, ffn=ffn, types=0), "encoder.layer.attention.dropout", 0.0)


def albert(*, width: int, depth: int, heads: int) -> Architecture:
    """Lan et al. 2019 (arXiv 1909.11942), section 3.1: one layer's weights for all layers, embeddings 128 wide; FFN 4 D."""
    layers = bert(
        width=width, depth=depth, heads=heads, ffn=4 * width, embedding=128, vocab=30_000, activation="gelu_tanh", dropout=0.0
    )
    return change(layers, "encoder.shared_weights", ("layer",))


def squeezebert(*, width: int, depth: int, heads: int, ffn: int) -> Architecture:
    """Iandola et al. 2020 (arXiv 2006.11316): projections in 4 groups, but for that of the mixed heads."""
    made = bert(width=width, depth=depth, heads=heads, ffn=ffn)
    groups = {"attention": HeadGroups(query=4, key=4, value=4), "feedforward": NetworkGroups(up=4, down=4)}
    return change_all(made, {f"encoder.layer.{branch}.grouped": grouped for branch, grouped in groups.items()})


def convbert(*, width: int, depth: int, heads: int, ffn: int) -> Architecture:
    """Jiang et al. 2020 (arXiv 2008.02496), section 3.3: half as many heads, beside as many of a convolution of spans."""
    spans = SpanConvolution(kernel=9, bias=("key", "kernel", "value"))
    mixed = {"heads": heads // 2, "head_width": width // heads, "convolution": spans}
    made = bert(width=width, depth=depth, heads=heads, ffn=ffn)
    return change_all(made, {f"encoder.layer.attention.{field}": value for field, value in mixed.items()})


def mobilebert(*, width: int, depth: int, heads: int, ffn: int, inside: int = 128, networks: int = 4) -> Architecture:
    """Sun et al. 2020 (arXiv 2004.02984), section 3: layers of `inside` features, trigrams of narrow embeddings, no norms."""
    attention = Attention(
        heads=heads,
        mask=Bidirectional(),
        project=Projection(bias=("query", "key", "value", "output")),
        weigh=Softmax(dropout=0.1),
    )
    network = FeedForward(width=ffn, activation="relu", gated=False, bias=("up", "down"))
    layer = Bottleneck(width=inside, attention=attention, network=network, networks=networks, norm=Affine(), bias=True)
    return encoder_only(
        Embedding(vocab=30_522, types=2, narrow=NarrowTable(width=inside, around=1)),
        width,
        [post_norm(Affine(), layer)] * depth,
        position=LearnedPosition(length=512),
        input_norm=Affine(),
        head=masked_head(LayerNorm(eps=1e-12), "relu").but(own=width - inside),
        initialisation=SMALL_NORMAL,
    )


def deberta(*, width: int, depth: int, heads: int, ffn: int, vocab: int = 50_265, dropout: float = 0.1) -> Architecture:
    """He et al. 2021 (arXiv 2006.03654), section 3.1: scores of content and relative position, each over sqrt(3 E).

    No positions at the input; positions have projections of their own.
    """
    norm = LayerNorm(eps=1e-7, cast="before_gain")
    attention = Attention(
        heads=heads,
        project=Projection(bias=("query", "value", "output")),
        score=Score(
            scale=(3 * width // heads) ** -0.5, terms=Disentangled(shared=False, span=512, bias=("position_to_content",))
        ),
    )
    return encoder_only(
        Embedding(vocab=vocab),
        width,
        [post_norm_encoder(norm, attention, ffn, "gelu", dropout)] * depth,
        input_norm=norm,
        dropout=dropout,
        relative=RelativeTable(span=512),
        head=masked_head(norm.but(cast="after_gain"), "gelu"),
        initialisation=SMALL_NORMAL,
    )


def deberta3(*, width: int, depth: int, heads: int, ffn: int, vocab: int = 128_100, dropout: float = 0.1) -> Architecture:
    """He et al. 2021 (arXiv 2111.09543): version 2's buckets and shared projections, trained as ELECTRA; the encoder alone."""
    norm = LayerNorm(eps=1e-7)
    attention = Attention(
        heads=heads,
        project=Projection(bias=("query", "key", "value", "output")),
        score=Score(scale=(3 * width // heads) ** -0.5, terms=Disentangled(span=256, max_distance=512)),
    )
    return encoder_only(
        Embedding(vocab=vocab),
        width,
        [post_norm_encoder(norm, attention, ffn, "gelu", dropout)] * depth,
        input_norm=norm,
        dropout=dropout,
        relative=RelativeTable(span=256, norm=norm),
        initialisation=SMALL_NORMAL,
    )


def fnet(*, width: int, depth: int, ffn: int) -> Architecture:
    """Lee-Thorp et al. 2022 (arXiv 2105.03824), section 3: Fourier transforms in place of attention, embeddings projected."""
    norm = LayerNorm(eps=1e-12)
    network = FeedForward(width=ffn, activation="gelu_tanh", gated=False, bias=("up", "down"))
    block = Block(steps=(*post_norm(norm, FourierMixing()).steps, *post_norm(norm, network, dropout=0.1).steps))
    return encoder_only(
        Embedding(vocab=32_000, types=4),
        width,
        [block] * depth,
        input_projection=InputProjection(),
        position=LearnedPosition(length=512),
        input_norm=norm,
        dropout=0.1,
        head=masked_head(norm, "gelu_tanh"),
        initialisation=SMALL_NORMAL,
    )


_BASE: Size = {"width": 768, "depth": 12, "heads": 12, "ffn": 3072}
_LARGE: Size = {"width": 1024, "depth": 24, "heads": 16, "ffn": 4096}
_POOLER = Head(outputs="features", pool="first", transform=Transform(activation="tanh"))
_MEAN = Head(outputs="features", pool="mean")
_MINI = partial(bert, width=384, depth=6, heads=12, ffn=1536)
_ROBERTA = partial(bert, vocab=50_265, types=1, offset=2, eps=1e-5)
_BERT = "arXiv 1810.04805, section 3; released configuration bert-{}"
_OF_ROBERTA = "arXiv 1907.11692, appendix; released configuration roberta-{}"
_OF_ALBERT = "arXiv 1909.11942, table 1; released configuration albert-{}-v2"
_OF_ELECTRA = "arXiv 2003.10555, table 6; released configuration electra-{}-discriminator"
_OF_FNET = "arXiv 2105.03824, section 3 and table 1; released configuration fnet-{}"
_OF_DEBERTA = "arXiv 2006.03654, table 8; released configuration deberta-{}"
_OF_DEBERTA3 = "arXiv 2111.09543, section 5; released configuration deberta-v3-{}"
_MASKED = "post-norm encoder, learned positions, masked tokens"
_SHARED = "one layer's weights for all, embeddings 128 wide"
_REPLACED = "BERT that finds replaced tokens"
_DISENTANGLED = "separate scores of content and relative positions, masked tokens"
_DISENTANGLED_3 = "separate scores of content and bucketed relative positions, trained to find replaced tokens; the encoder"

ENTRIES = (
    Entry("bert-base-uncased", 2018, _MASKED, _BERT.format("base-uncased"), partial(bert, **_BASE)),
    Entry("bert-base-cased", 2018, _MASKED, _BERT.format("base-cased"), partial(bert, **_BASE, vocab=28_996)),
    Entry("bert-base-uncased-pooled", 2018, "BERT with its pooler: one vector for a text", _BERT.format("base-uncased"),
          partial(bert, **_BASE, head=_POOLER)),
    Entry("bert-large-uncased", 2018, _MASKED, _BERT.format("large-uncased"), partial(bert, **_LARGE)),
    Entry("bert-large-cased", 2018, _MASKED, _BERT.format("large-cased"), partial(bert, **_LARGE, vocab=28_996)),
    Entry("roberta-base", 2019, _MASKED, _OF_ROBERTA.format("base"), partial(_ROBERTA, **_BASE), organisation="Meta"),
    Entry("roberta-large", 2019, _MASKED, _OF_ROBERTA.format("large"), partial(_ROBERTA, **_LARGE), organisation="Meta"),
    Entry("distilbert-base-uncased", 2019, "BERT at half its depth, distilled; no token types",
          "arXiv 1910.01108, section 2; released configuration distilbert-base-uncased",
          partial(distilbert, width=768, depth=6, heads=12, ffn=3072), organisation="Hugging Face"),
    Entry("sentence-bert-base", 2019, "BERT, the mean of its features for a sentence", "arXiv 1908.10084, section 3",
          partial(bert, **_BASE, head=_MEAN), organisation="TU Darmstadt"),
    Entry("sentence-bert-large", 2019, "BERT, the mean of its features for a sentence", "arXiv 1908.10084, section 3",
          partial(bert, **_LARGE, head=_MEAN), organisation="TU Darmstadt"),
    Entry("all-minilm-l6-v2", 2021, "a small BERT, the mean of its features for a sentence",
          "released configuration all-MiniLM-L6-v2", partial(_MINI, head=_MEAN), organisation="TU Darmstadt"),
    Entry("albert-base-v2", 2019, _SHARED, _OF_ALBERT.format("base"), partial(albert, width=768, depth=12, heads=12)),
    Entry("albert-large-v2", 2019, _SHARED, _OF_ALBERT.format("large"), partial(albert, width=1024, depth=24, heads=16)),
    Entry("albert-xlarge-v2", 2019, _SHARED, _OF_ALBERT.format("xlarge"), partial(albert, width=2048, depth=24, heads=16)),
    Entry("albert-xxlarge-v2", 2019, _SHARED, _OF_ALBERT.format("xxlarge"), partial(albert, width=4096, depth=12, heads=64)),
    Entry("electra-small", 2020, "BERT that finds replaced tokens, narrow embeddings", _OF_ELECTRA.format("small"),
          partial(electra, width=256, depth=12, heads=4, ffn=1024, embedding=128)),
    Entry("electra-base", 2020, _REPLACED, _OF_ELECTRA.format("base"), partial(electra, **_BASE)),
    Entry("electra-large", 2020, _REPLACED, _OF_ELECTRA.format("large"), partial(electra, **_LARGE)),
    Entry("fnet-base", 2022, "BERT with Fourier transforms in place of attention", _OF_FNET.format("base"),
          partial(fnet, width=768, depth=12, ffn=3072)),
    Entry("fnet-large", 2022, "BERT with Fourier transforms in place of attention", _OF_FNET.format("large"),
          partial(fnet, width=1024, depth=24, ffn=4096)),
    Entry("squeezebert", 2020, "BERT whose projections are in four groups",
          "arXiv 2006.11316; released configuration squeezebert-uncased", partial(squeezebert, **_BASE),
          organisation="UC Berkeley"),
    Entry("convbert-base", 2020, "BERT with heads of a convolution of spans beside those of attention",
          "arXiv 2008.02496; released configuration conv-bert-base", partial(convbert, **_BASE), organisation="Yitu"),
    Entry("mobilebert", 2020, "BERT of narrow layers in a wide stream, without norms, distilled",
          "arXiv 2004.02984; released configuration mobilebert-uncased",
          partial(mobilebert, width=512, depth=24, heads=4, ffn=512)),
    Entry("deberta-base", 2020, _DISENTANGLED, _OF_DEBERTA.format("base"), partial(deberta, **_BASE), organisation="Microsoft"),
    Entry("deberta-large", 2020, _DISENTANGLED, _OF_DEBERTA.format("large"), partial(deberta, **_LARGE),
          organisation="Microsoft"),
    Entry("deberta-v3-xsmall", 2021, _DISENTANGLED_3, _OF_DEBERTA3.format("xsmall"),
          partial(deberta3, width=384, depth=12, heads=6, ffn=1536), organisation="Microsoft"),
    Entry("deberta-v3-small", 2021, _DISENTANGLED_3, _OF_DEBERTA3.format("small"),
          partial(deberta3, width=768, depth=6, heads=12, ffn=3072), organisation="Microsoft"),
    Entry("deberta-v3-base", 2021, _DISENTANGLED_3, _OF_DEBERTA3.format("base"), partial(deberta3, **_BASE),
          organisation="Microsoft"),
    Entry("deberta-v3-large", 2021, _DISENTANGLED_3, _OF_DEBERTA3.format("large"), partial(deberta3, **_LARGE),
          organisation="Microsoft"),
)  # fmt: skip
