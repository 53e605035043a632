"""Speech2Text: BART's layers with norms before sublayers, fairseq's sinusoids, and gated convolutions over mel frames."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.bart import AROUND, LAYERS, Line, written_stacks
from anyformer.huggingface.families.m2m_100 import after_padding, padding
from anyformer.huggingface.families.pegasus import TABLES
from anyformer.huggingface.rules import Names
from anyformer.huggingface.spelling import initialisation
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import Embedding, GatedFrames, Head, pre_norm

INERT = ("max_source_positions", "max_target_positions")
"""Tables of sinusoids grow as needed."""
SPEECH = Line(after_padding, padding, wiring=pre_norm, final_norm=True, activation="relu")


def read(config: Config) -> Architecture:
    config.expect("num_hidden_layers", config("encoder_layers"))
    if config("pad_token_id", 1) == 0:
        raise HuggingFaceError(f"{config.where}: pad_token_id = 0 would give all frames one position; give padding another id")
    kernels, width = tuple(config("conv_kernel_sizes", (5, 5))), config("d_model")
    config.expect("num_conv_layers", len(kernels))
    scale = width**0.5 if config("scale_embedding", True) else 1.0
    return encoder_decoder(
        GatedFrames(
            features=config("input_feat_per_channel", 80) * config("input_channels", 1),
            kernels=kernels,
            channels=config("conv_channels", 1024),
            scale=scale,
        ),
        width,
        SPEECH.stack(config, "encoder"),
        SPEECH.stack(config, "decoder"),
        decoder_embedding=Embedding(vocab=config("vocab_size"), scale=scale),
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config, key="init_std"),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    frames: GatedFrames = get(architecture, "embedding")
    return (
        written_stacks(architecture)
        | padding(architecture)
        | {
            "scale_embedding": frames.scale != 1.0,
            "input_feat_per_channel": frames.features,
            "input_channels": 1,
            "conv_kernel_sizes": list(frames.kernels),
            "num_conv_layers": len(frames.kernels),
            "conv_channels": frames.channels,
            "vocab_size": get(architecture, "decoder_embedding.vocab"),
            "tie_word_embeddings": get(architecture, "head.tied"),
        }
    )


def names(architecture: Architecture) -> Names:
    convolutions = range(len(get(architecture, "embedding.kernels")))
    return Names(
        {
            **{f"embedding.layers.{i}": f"model.encoder.conv.conv_layers.{i}" for i in convolutions},
            "decoder_embedding": "model.decoder.embed_tokens",
            "head": "lm_head",
            **AROUND,
        },
        LAYERS,
    )


FAMILIES = (
    SPEECH.family(
        "speech_to_text", "Speech2TextForConditionalGeneration", read=read, write=write, names=names, inert=INERT,
        ignored=(TABLES,),
    ),
)  # fmt: skip
