"""Whisper: BART's layers with norms before sublayers, and two convolutions over mel frames for a source.

Spectrograms that transformers masks in training (`apply_spec_augment`) belong to the data here, and `scale_embedding` is
read by nothing.
"""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bart import AROUND, LAYERS, Line, written_stacks
from anyformer.huggingface.rules import Names
from anyformer.huggingface.spelling import initialisation
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import AudioFrames, Embedding, Head, LearnedPosition, SinusoidalPosition, pre_norm
from anyformer.parts.positions.absolute import Position

INERT = (
    "apply_spec_augment", "classifier_proj_size", "forced_decoder_ids", "mask_feature_length", "mask_feature_min_masks",
    "mask_feature_prob", "mask_time_length", "mask_time_min_masks", "mask_time_prob", "median_filter_width", "scale_embedding",
    "use_weighted_layer_sum",
)  # fmt: skip
TABLE = r"model\.encoder\.embed_positions\.weight"
"""The encoder's sinusoids, which are stored, never trained, and computed here."""
NAMES = Names(
    {
        "embedding.first": "model.encoder.conv1",
        "embedding.second": "model.encoder.conv2",
        "decoder_embedding": "model.decoder.embed_tokens",
        "head": "proj_out",
        **AROUND,
    },
    LAYERS,
)


def learned(config: Config) -> Position:
    """The decoder's table."""
    return LearnedPosition(length=config("max_target_positions", 448))


def longest(architecture: Architecture) -> dict[str, Any]:
    """How much each side reads; the encoder's class wants exactly so much."""
    return {
        "max_source_positions": get(architecture, "encoder.position.length"),
        "max_target_positions": get(architecture, "decoder.position.length"),
    }


WHISPER = Line(learned, longest, wiring=pre_norm, final_norm=True, projections=("query", "value", "output"))


def read(config: Config) -> Architecture:
    config.expect("num_hidden_layers", config("encoder_layers"))
    waves = SinusoidalPosition(layout="halves", spacing="inclusive", length=config("max_source_positions", 1500))
    return encoder_decoder(
        AudioFrames(features=config("num_mel_bins", 80)),
        config("d_model"),
        WHISPER.stack(config, "encoder").but(position=waves),
        WHISPER.stack(config, "decoder"),
        decoder_embedding=Embedding(vocab=config("vocab_size")),
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config, key="init_std"),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    vocab = get(architecture, "decoder_embedding.vocab")
    return (
        written_stacks(architecture)
        | longest(architecture)
        | {
            "num_mel_bins": get(architecture, "embedding.features"),
            "vocab_size": vocab,
            "tie_word_embeddings": get(architecture, "head.tied"),
            # The class's own, which must be a row of the table.
            "pad_token_id": min(50256, vocab - 1),
        }
    )


FAMILIES = (
    WHISPER.family(
        "whisper", "WhisperForConditionalGeneration", read=read, write=write, names=lambda architecture: NAMES, inert=INERT,
        ignored=(TABLE, r"proj_out\.weight"),
    ),
)  # fmt: skip
