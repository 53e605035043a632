"""Our own layout of a Hugging Face directory, for architectures that no family of transformers expresses."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.model import Architecture
from anyformer.operations import Shape

MODEL_TYPE = "anyformer"


def read(config: Config) -> Architecture:
    """The architecture stands in the configuration as data."""
    return Architecture.parse(config("architecture"), where=f"{config.where}: architecture")


def write(architecture: Architecture) -> dict[str, Any]:
    """The architecture as data, and the few keys that tools ask every configuration for."""
    return {
        "architecture": architecture.plain(),
        "architectures": [_class(architecture)],
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.output_stack.depth,
        "vocab_size": architecture.embedding.symbols or architecture.outputs,
        "is_encoder_decoder": architecture.two_inputs,
        **(
            {}
            if architecture.output_stack.max_length is None
            else {"max_position_embeddings": architecture.output_stack.max_length}
        ),
        **({"num_labels": architecture.outputs} if _pools(architecture) else {}),
    }


def _class(architecture: Architecture) -> str:
    """The class of `auto` that runs it: by its inputs and by what its head gives."""
    if architecture.head is None:
        return "AnyformerModel"
    if architecture.two_inputs:
        return "AnyformerForConditionalGeneration"
    if _pools(architecture):
        return "AnyformerForSequenceClassification"
    if architecture.latents is not None:
        return "AnyformerModel"
    return "AnyformerForMaskedLM" if architecture.decoder is None else "AnyformerForCausalLM"


def _pools(architecture: Architecture) -> bool:
    return architecture.head is not None and architecture.head.pool is not None


def names(architecture: Architecture) -> Names:
    """Our own, under the `model.` of the class in `auto`."""
    declared = architecture.cost(Shape()).weights
    return Names({name.replace(".sublayer", ""): f"model.{name}" for name in declared}, {})


OWN = Family(
    MODEL_TYPE,
    read,
    write,
    names,
    "AnyformerForCausalLM",
    inert=("hidden_size", "num_hidden_layers", "vocab_size", "tie_word_embeddings"),
)
