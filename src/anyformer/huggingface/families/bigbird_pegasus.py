"""BigBird-Pegasus with full attention over the source: Pegasus with learned positions."""

from __future__ import annotations

from dataclasses import replace

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.seq2seq import DECODER, ENCODER, LAYERS, SIDES, BartVariant, bart_names, learned
from anyformer.model import Architecture
from anyformer.parts import pre_norm

BIGBIRD = BartVariant(
    learned(0, 4096),
    wiring=pre_norm,
    final_norm=True,
    scaled=True,
    activation="gelu_new",
    projections=(),
    headless="BigBirdPegasusModel",
)


def read(config: Config) -> Architecture:
    config.put(attention_type="original_full")
    if config("attention_type", "block_sparse") != "original_full":
        raise HuggingFaceError(
            f"{config.where}: blocks chosen at random are not known here; up to (5 + 2 num_random_blocks) block_size tokens "
            f"transformers attends to all, and so does attention_type = original_full"
        )
    return replace(BIGBIRD, projections=words.biases(config, "use_bias")).read(config)


def names(architecture: Architecture) -> Names:
    """Names of the weights, of which `layernorm_embedding` is the final norm."""
    attention: Table = {
        **{f"attention.{name}": f"self_attn.self.{name}" for name in words.QKV},
        "attention.output": "self_attn.output",
    }
    around: Table = {f"{side}.final_norm": f"model.{side}.layernorm_embedding" for side in SIDES}
    layers = {side: (LAYERS[side][0], table) for side, table in zip(SIDES, ({**ENCODER, **attention}, DECODER), strict=True)}
    return Names({**bart_names(architecture).outside, **around}, layers)


FAMILIES = (
    BIGBIRD.family(
        "bigbird_pegasus",
        "BigBirdPegasusForConditionalGeneration",
        read=read,
        names=names,
        inert=("block_size", "num_random_blocks"),
    ),
)
