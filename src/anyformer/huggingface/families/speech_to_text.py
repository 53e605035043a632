"""Speech2Text: BART's layers with norms before sublayers, fairseq's sinusoids, and gated convolutions over mel frames."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.seq2seq import AROUND, LAYERS, SINUSOIDS, BartVariant, after_padding
from anyformer.model import Architecture
from anyformer.parts import Embedding, GatedFrames, Head, pre_norm

SPEECH = BartVariant(after_padding, wiring=pre_norm, final_norm=True, activation="relu")


def read(config: Config) -> Architecture:
    if config("pad_token_id", 1, lambda target: target("decoder.position.offset") - 1) == 0:
        raise HuggingFaceError(f"{config.where}: pad_token_id = 0 would give all frames one position; give padding another id")
    kernels = tuple(config("conv_kernel_sizes", (5, 5), lambda target: list(target("embedding.kernels"))))
    config.put(num_conv_layers=len(kernels), input_channels=1)
    config.expect("num_conv_layers", len(kernels))
    scale = words.root_scale(config, True)
    bins = config("input_feat_per_channel", 80, "embedding.features")
    frames = GatedFrames(
        features=bins * config("input_channels", 1),
        kernels=kernels,
        channels=config("conv_channels", 1024, "embedding.channels"),
        scale=scale,
    )
    table = Embedding(vocab=config("vocab_size", at="decoder_embedding.vocab"), scale=scale)
    return SPEECH.of(config, embedding=frames, decoder_embedding=table, head=Head(tied=config("tie_word_embeddings", True)))


def names(architecture: Architecture) -> Names:
    convolutions = range(len(Target(architecture)("embedding.kernels")))
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
        "speech_to_text",
        "Speech2TextForConditionalGeneration",
        read=read,
        names=names,
        # Sinusoids have no limit of length.
        inert=("max_source_positions", "max_target_positions"),
        fixed=SINUSOIDS,
    ),
)
