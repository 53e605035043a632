"""The model around its layers: embedding, final norm, head and initialisation."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, change_all
from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.places import UNLIMITED, inverse
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.layers import Layers
from anyformer.huggingface.words.norms import Norm
from anyformer.model import Architecture
from anyformer.parts import Bidirectional, Block, Causal, Embedding, Head, Initialisation, Normal, Stack, stack
from anyformer.parts.derived import WidthFactor
from anyformer.parts.layers.multi_token import MultiToken


def decoder(
    config: Config,
    layers: Layers,
    norm: Norm | None,
    *,
    tied: bool = False,
    vocab: int = REQUIRED,
    width: str = "hidden_size",
    length: str | None = "max_position_embeddings",
    unlimited: int = UNLIMITED,
    embedding_scale: WidthFactor = 1.0,
    embedding_width: int | None = None,
    side: str = "decoder",
    starts: Initialisation | None = None,
    around: dict[str, Any] | None = None,
    mtp: MultiToken | None = None,
    **head: Any,
) -> Architecture:
    """A language model of the layers; with `side` = "encoder" an encoder with the same head.

    `tied`, `vocab`: defaults of absent keys. `width`, `length`: the keys of D and of the most positions, written as
    `unlimited` where positions are computed. `around`: more fields of the stack; `head`: of the head.
    """
    if length is not None:
        config(length, None, lambda target: target.stack.max_length or unlimited)
    config.put(pad_token_id=None)  # a class's own id may be beyond a small vocabulary
    stacks: dict[str, Any] = {side: stacked(layers, final_norm=norm, **(around or {}))}
    return Architecture(
        width=config(width),
        embedding=Embedding(vocab=config("vocab_size", vocab), scale=embedding_scale),
        embedding_width=embedding_width,
        head=Head(tied=config("tie_word_embeddings", tied), **head),
        mtp=mtp,
        initialisation=starts or initialisation(config),
        **stacks,
    )


def stacked(layers: Layers, **around: Any) -> Stack:
    """A stack of named layers."""
    alike = len({name for name, _ in layers}) == 1
    return stack([block for _, block in layers], names=None if alike else Named(dict(layers)), **around)


def needs(config: Config, *names: str) -> None:
    """Refuse null for keys of which the model type's class needs a number."""
    for name in names:
        if config(name, None) is None:
            raise HuggingFaceError(f"{config.where}: {config.model_type} needs a number for {name}, got null")


def initialisation(config: Config, default: float = 0.02, key: str = "initializer_range") -> Initialisation:
    """Normal matrices and tables with the configuration's standard deviation."""
    rule = Normal(std=config(key, default))
    return Initialisation(matrix=rule, embedding=rule)


def headless(config: Config, name: str) -> bool:
    """Whether the configuration's class has no head; `name`: that class, for writing."""
    if config.target is not None and config.target.architecture.head is None:
        config.put(architectures=[name])
    return config.task == "Model"


def multiplied(block: Block, multiplier: float) -> Block:
    """The block with a multiplier on every branch."""
    return change_all(block, {f"{branch}.multiplier": multiplier for branch in block.branches})


def in_parallel(target: Target) -> bool:
    """Whether the branches of every layer are parallel: one step."""
    return all(len(block.steps) == 1 for block in target.blocks)


def logits_divided(config: Config) -> float:
    """The factor of the logits: 1 / `logits_scaling`."""
    return 1 / float(config("logits_scaling", 1.0, lambda target: inverse(target("head.scale"))))


def stack_and_mask(config: Config, key: str, default: bool = False) -> tuple[str, Bidirectional | Causal]:
    """The stack and the mask: a causal decoder if a flag is set, else a bidirectional encoder."""
    causal = config(key, default, lambda target: target.architecture.decoder is not None)
    return ("decoder", Causal()) if causal else ("encoder", Bidirectional())


def root_scale(config: Config, default: bool, key: str = "scale_embedding") -> WidthFactor:
    """The factor of the embeddings: sqrt(D) if a flag says so."""
    return "sqrt_width" if config(key, default, lambda target: target("embedding.scale") != 1.0) else 1.0
