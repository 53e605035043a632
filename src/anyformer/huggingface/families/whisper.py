"""Whisper: BART's layers with norms before sublayers, and a source of mel frames, read by two convolutions.

Masking of spectrograms in training (`apply_spec_augment`) belongs to the data here, and no code reads `scale_embedding`.
"""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.fixed_tables import sinusoids
from anyformer.huggingface.rules import Names
from anyformer.huggingface.words.rounded import tell_of_rounding
from anyformer.huggingface.words.seq2seq import AROUND, LAYERS, BartVariant
from anyformer.model import Architecture
from anyformer.parts import AudioFrames, Embedding, Head, LearnedPosition, SinusoidalPosition, pre_norm


def _position(config: Config, side: str) -> LearnedPosition | SinusoidalPosition:
    """Sinusoids in the encoder, whose class reads sources of exactly that length, and a table in the decoder."""
    if side == "decoder":
        return LearnedPosition(length=config("max_target_positions", 448, "decoder.position.length"))
    length = config("max_source_positions", 1500, "encoder.position.length")
    return SinusoidalPosition(layout="halves", spacing="inclusive", length=length)


WHISPER = BartVariant(_position, wiring=pre_norm, final_norm=True, projections=("query", "value", "output"))


def read(config: Config) -> Architecture:
    tell_of_rounding(config, "the table of positions of sound")
    vocab = config("vocab_size", at="decoder_embedding.vocab")
    config.put(pad_token_id=min(50256, vocab - 1))  # the class's own id, which must be a row of the table
    return WHISPER.of(
        config,
        embedding=AudioFrames(features=config("num_mel_bins", 80, "embedding.features")),
        decoder_embedding=Embedding(vocab=vocab),
        head=Head(tied=config("tie_word_embeddings", True)),
    )


_NAMES = Names(
    {
        "embedding.first": "model.encoder.conv1",
        "embedding.second": "model.encoder.conv2",
        "decoder_embedding": "model.decoder.embed_tokens",
        "head": "proj_out",
        **AROUND,
    },
    LAYERS,
)
_INERT = (
    "apply_spec_augment", "classifier_proj_size", "forced_decoder_ids", "mask_feature_length", "mask_feature_min_masks",
    "mask_feature_prob", "mask_time_length", "mask_time_min_masks", "mask_time_prob", "median_filter_width", "scale_embedding",
    "use_weighted_layer_sum",
)  # fmt: skip
FAMILIES = (
    WHISPER.family(
        "whisper",
        "WhisperForConditionalGeneration",
        read=read,
        names=_NAMES,
        inert=_INERT,
        ignored=(r"proj_out\.weight",),
        fixed={r"(?:model\.)?encoder\.embed_positions\.weight": sinusoids("encoder")},
    ),
)
