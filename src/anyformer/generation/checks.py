"""Checks before any generation: models and prompts that cannot be continued are refused with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.memory import check_memory
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.images.encoder_module import Images
from anyformer.requirements.needs import UNSAID


def check_model(model: Transformer) -> None:
    """Refuse a model that does not generate text."""
    architecture = model.architecture
    if architecture.head is None:
        raise InputError(f"this {architecture.shape_of_model} model has no head: it gives features and does not generate text")
    if architecture.decoder is None or architecture.latents is not None:
        raise InputError(
            f"a model of the shape {architecture.shape_of_model} reads a whole text at once and does not generate text; "
            f"call it for its logits, or give it a tokenizer with a mask token to fill masks"
        )
    if architecture.head.pool is not None or architecture.outputs + UNSAID < (architecture.output_embedding.symbols or 0):
        each = "each text" if architecture.head.pool else "each token"
        raise InputError(
            f"the head of this model gives {architecture.outputs} numbers for {each}, and none for tokens to come: it "
            f"classifies, and does not generate text"
        )
    if architecture.outputs > (symbols := architecture.output_embedding.symbols or architecture.outputs):
        raise InputError(
            f"the head of this model gives {architecture.outputs} numbers for each position, and it reads {symbols} tokens: "
            f"its logits are of several books of codes side by side, and it does not generate text; call it for its logits"
        )
    reasons = architecture.folded_cost(Shape()).breaks("stepwise")
    if reasons:
        raise InputError(f"this architecture cannot generate token by token: {'; '.join(reasons)}")


def fills_masks(model: Transformer) -> bool:
    """Whether the model gives logits of tokens at every position of a text that it reads at once, so that it can fill masks."""
    architecture, head = model.architecture, model.architecture.head
    reads = architecture.decoder is None and architecture.embedding.symbols is not None
    return reads and head is not None and head.pool is None and architecture.outputs == architecture.embedding.symbols


def check_chats(model: Transformer) -> None:
    """Refuse a model that does not go on with what was said."""
    if model.architecture.two_inputs or fills_masks(model):
        raise InputError("a chat is gone on with by a decoder that predicts the next token, which this model is not")


def check(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    start: int | None,
    source: Tensor | None = None,
    images: Images | None = None,
    batch: int | None = None,
    rows: int | None = None,
    heard: bool = False,
) -> None:
    """Refuse prompts that `model` cannot continue for `max_tokens` tokens, `batch` at a time, or all together.

    `rows`: rows whose decode state is held at a time, where that is not one of each prompt. `heard`: sounds come with them.
    """
    check_model(model)
    if batch is not None and batch < 1:
        raise InputError(f"batch = {batch} should be at least 1 prompt at a time")
    target, read = check_texts(model, prompts, max_tokens, start, source, images, heard=heard)
    together = len(prompts) if batch is None else min(batch, len(prompts))
    check_memory(model, rows or together, max_tokens + target, read)


def check_texts(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    start: int | None,
    source: Tensor | None = None,
    images: Images | None = None,
    *,
    heard: bool = False,
) -> tuple[int, int]:
    """Refuse prompts that `model` cannot continue for `max_tokens` tokens, whatever memory is free; arguments as of `check`.

    The most tokens that a text begins with, and positions of its source.
    """
    architecture = model.architecture
    two = architecture.two_inputs
    if not prompts or any(len(prompt) == 0 for prompt in prompts):
        raise InputError("every prompt needs at least one token; use the end-of-text token to start from nothing")
    if max_tokens < 1:
        raise InputError(f"max_tokens should be at least 1, got {max_tokens}")
    if two and (start is None) == (source is None):
        raise InputError(
            "a model with two inputs needs either the target's start token, for prompts that are sources (give start), "
            "or sources besides the prompts (give source)"
        )
    if not two and (start is not None or source is not None):
        raise InputError(f"this {architecture.shape_of_model} model reads one sequence: leave start and source out")
    if source is not None and len(source) != len(prompts):
        raise InputError(f"there are {len(source)} sources and {len(prompts)} prompts; give one source and one prompt per row")
    embedding = architecture.output_embedding if start is None else architecture.embedding
    shown = set() if images is None or architecture.images is None else {architecture.images.token}
    shown |= {architecture.audio.token} if heard and architecture.audio is not None else set()
    lowest, highest = (bound((t for prompt in prompts for t in prompt if t not in shown), default=0) for bound in (min, max))
    if embedding.symbols is None:
        raise InputError(
            f"the source is {embedding.kind}, not text: give it as source, an image as images (--image), and the beginning of "
            "the target as prompt"
        )
    if lowest < 0:
        raise InputError(f"token {lowest} is below 0: tokens are numbered from 0")
    if highest >= embedding.symbols:
        raise InputError(f"token {highest} is beyond the vocabulary of {embedding.symbols}: is this the model's tokenizer?")
    target, read = max(len(prompt) for prompt in prompts), 0
    if start is not None:
        target, read = 1, target
    elif source is not None:
        read = architecture.embedding.check("source", source, None)
    before = read if architecture.source == "prefix" else architecture.virtual_tokens or 0
    length = max_tokens + target - 1 + before
    longest = architecture.output_stack.max_length
    if longest is not None and length > longest:
        raise InputError(
            f"prompt and text would reach {length} positions, and the position table ends at {longest}; shorten one"
        )
    return target, read
