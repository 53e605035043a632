"""Encoder-decoders after BART and T5 that translate, summarise and converse."""

from __future__ import annotations

from functools import partial
from typing import Literal

from anyformer.catalogue.entry import Entry
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Projection,
    SinusoidalPosition,
    Softmax,
    Window,
    post_norm,
    pre_norm,
    stack,
)
from anyformer.parts.attention.projection import PROJECTIONS
from anyformer.parts.positions.absolute import Position

FAIRSEQ = SinusoidalPosition(layout="halves", spacing="inclusive", offset=2)


def translator(
    *,
    width: int,
    encoder: int,
    decoder: int,
    heads: int,
    ffn: int,
    vocab: int,
    position: Position,
    activation: str = "relu",
    norms: Literal["pre", "post"] = "pre",
    input_norm: bool = False,
    scaled: bool = True,
    head_bias: bool = True,
    attention_dropout: float = 0.0,
    window: Window | None = None,
    source_position: Position | None = None,
) -> Architecture:
    """Layers of `encoder` and `decoder`, biases everywhere, one table for all, embeddings times sqrt(D) if `scaled`.

    `window` and `source_position` are of the encoder (LED).
    """
    norm = LayerNorm(eps=1e-5)
    past = Attention(heads=heads, project=Projection(bias=PROJECTIONS), weigh=Softmax(dropout=attention_dropout))
    cross = CrossAttention(heads=heads, project=Projection(bias=PROJECTIONS), weigh=Softmax(dropout=attention_dropout))
    network = FeedForward(width=ffn, activation=activation, gated=False, bias=("up", "down"))
    wired = pre_norm if norms == "pre" else post_norm
    reads = wired(norm, past.but(mask=window or Bidirectional()), network, dropout=0.1)
    writes = wired(norm, past, cross, network, dropout=0.1)
    before, after = norm if input_norm else None, norm if norms == "pre" else None

    return encoder_decoder(
        Embedding(vocab=vocab, scale="sqrt_width" if scaled else 1.0),
        width,
        stack([reads] * encoder, position=source_position or position, input_norm=before, final_norm=after, dropout=0.1),
        stack([writes] * decoder, position=position, input_norm=before, final_norm=after, dropout=0.1),
        head=Head(tied=True, bias=head_bias),
    )


_MANY = partial(translator, position=FAIRSEQ, head_bias=False, attention_dropout=0.1)
_M2M = partial(_MANY, vocab=128_112)
_NLLB = partial(_MANY, vocab=256_206)
_LED = partial(
    translator,
    vocab=50_265,
    activation="gelu",
    norms="post",
    input_norm=True,
    scaled=False,
    window=Window(size=513, after=512),
    source_position=LearnedPosition(length=16_384),
    position=LearnedPosition(length=1024),
)
_OF_M2M = "arXiv 2010.11125, section 5; released configuration m2m100_{}"
_OF_NLLB = "arXiv 2207.04672, section 8; released configuration nllb-200-{}"
_OF_LED = "arXiv 2004.05150, section 7; released configuration led-{}-16384; tokens that see all are left aside"
_WHAT_LED = "BART for 16,384 tokens, whose encoder sees 512 each way"

ENTRIES = (
    Entry("mbart-large-cc25", 2020, "BART in 25 languages, pre-norm",
          "arXiv 2001.08210, section 2.2; released configuration mbart-large-cc25",
          partial(translator, width=1024, encoder=12, decoder=12, heads=16, ffn=4096, vocab=250_027, activation="gelu",
                  input_norm=True, position=LearnedPosition(length=1024, offset=2)), organisation="Meta"),
    Entry("m2m100-418m", 2020, "100 languages into each other, pre-norm, sinusoids", _OF_M2M.format("418M"),
          partial(_M2M, width=1024, encoder=12, decoder=12, heads=16, ffn=4096), organisation="Meta"),
    Entry("m2m100-1.2b", 2020, "100 languages into each other, pre-norm, sinusoids", _OF_M2M.format("1.2B"),
          partial(_M2M, width=1024, encoder=24, decoder=24, heads=16, ffn=8192), organisation="Meta"),
    Entry("nllb-200-600m", 2022, "200 languages into each other, distilled", _OF_NLLB.format("distilled-600M"),
          partial(_NLLB, width=1024, encoder=12, decoder=12, heads=16, ffn=4096), organisation="Meta"),
    Entry("nllb-200-1.3b", 2022, "200 languages into each other", _OF_NLLB.format("1.3B"),
          partial(_NLLB, width=1024, encoder=24, decoder=24, heads=16, ffn=8192), organisation="Meta"),
    Entry("nllb-200-3.3b", 2022, "200 languages into each other", _OF_NLLB.format("3.3B"),
          partial(_NLLB, width=2048, encoder=24, decoder=24, heads=16, ffn=8192), organisation="Meta"),
    Entry("opus-mt-en-de", 2020, "the original Transformer's base size with SiLU, one table",
          "Helsinki-NLP/Opus-MT, README; released configuration opus-mt-en-de",
          partial(translator, width=512, encoder=6, decoder=6, heads=8, ffn=2048, vocab=58_101, activation="silu", norms="post",
                  position=SinusoidalPosition(length=512, layout="halves")),
          organisation="University of Helsinki"),
    Entry("pegasus-large", 2019, "pre-norm, sinusoids, for summaries",
          "arXiv 1912.08777, section 4; released configuration pegasus-large",
          partial(translator, width=1024, encoder=16, decoder=16, heads=16, ffn=4096, vocab=96_103,
                  position=SinusoidalPosition(length=1024, layout="halves")), organisation="Google"),
    Entry("blenderbot-3b", 2020, "two layers that read, 24 that write",
          "arXiv 2004.13637, section 3.2; transformers 5.23, defaults of BlenderbotConfig (facebook/blenderbot-3B)",
          partial(translator, width=2560, encoder=2, decoder=24, heads=32, ffn=10_240, vocab=8008, activation="gelu",
                  scaled=False, position=LearnedPosition(length=128)), organisation="Meta"),
    Entry("led-base", 2020, _WHAT_LED, _OF_LED.format("base"),
          partial(_LED, width=768, encoder=6, decoder=6, heads=12, ffn=3072), organisation="Ai2"),
    Entry("led-large", 2020, _WHAT_LED, _OF_LED.format("large"),
          partial(_LED, width=1024, encoder=12, decoder=12, heads=16, ffn=4096), organisation="Ai2"),
)  # fmt: skip
