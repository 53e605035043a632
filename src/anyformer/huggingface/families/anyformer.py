"""Our own layout of a Hugging Face directory, for architectures that no family of transformers expresses."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.openings import words
from anyformer.huggingface.remote_files import auto_map
from anyformer.huggingface.rules import Names
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.parts.derived import of_width


def read(config: Config) -> Architecture:
    """The architecture that the configuration holds as data, beside the few keys that tools expect of every configuration."""
    data = config("architecture", at=lambda target: target.architecture.with_plugins())
    made = Architecture.parse(data, where=f"{config.where}: architecture")
    length = made.output_stack.max_length
    config.put(
        architectures=[class_of(made)],
        auto_map=auto_map_of(made),
        hidden_size=made.width,
        num_hidden_layers=made.output_stack.depth,
        vocab_size=made.embedding.symbols or made.outputs,
        is_encoder_decoder=made.two_inputs,
        **({} if config.target is None else {**_of_head(made), **words(made)}),
        **({} if length is None else {"max_position_embeddings": length}),
        **({"num_labels": made.outputs} if _pools(made) else {}),
    )
    return made


def _of_head(architecture: Architecture) -> dict[str, object]:
    """How features become logits, for tools that multiply by the head's matrix themselves."""
    head = architecture.head
    if head is None:
        return {}
    scale = of_width(head.scale, architecture.width)
    return {
        "tie_word_embeddings": head.tied,
        **({} if scale == 1.0 else {"logit_scale": scale}),
        **({} if head.softcap is None else {"final_logit_softcapping": head.softcap}),
    }


def auto_map_of(architecture: Architecture) -> dict[str, str]:
    """The class of transformers -> the file and the class of ours that it loads."""
    return auto_map(class_of(architecture), two_inputs=architecture.two_inputs)


def class_of(architecture: Architecture) -> str:
    """The class of `auto` for the architecture: by its inputs and its head."""
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
    """Our own names after the `model.` of the class in `auto`."""
    declared = architecture.trained_cost(Shape()).weights
    return Names({name.replace(".sublayer", ""): f"model.{name}" for name in declared}, {})


FAMILIES = (
    Family(
        "anyformer",
        read,
        names,
        "AnyformerForCausalLM",
        inert=(
            "hidden_size",
            "num_hidden_layers",
            "vocab_size",
            "tie_word_embeddings",
            "logit_scale",
            "final_logit_softcapping",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "layer_types",
            "sliding_window",
            "attn_logit_softcapping",
        ),
        sees=True,
    ),
)
