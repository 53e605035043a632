"""Prefill and decode: two pure functions over a model and its decode state, and the loop that joins them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from anyformer.costs.foretold import foretell_generation
from anyformer.generation.sampling import Sampling
from anyformer.model import InputError, Transformer
from anyformer.parts.stack_state import StackState
from anyformer.tally import Shape

Step = Callable[[Transformer, Tensor, StackState], Tensor]


def prefill(model: Transformer, tokens_BT: Tensor, padding_BT: Tensor | None, state: StackState) -> Tensor:
    """Read the prompts into `state`; logits of the next token, (B, V). Prompts are a prefix where the masks know one."""
    state.slots.reserve(tokens_BT.shape[1])
    lengths = torch.full((len(tokens_BT),), tokens_BT.shape[1], device=tokens_BT.device)
    prefix = lengths if padding_BT is None else (~padding_BT).sum(1)
    features = model.advance(tokens_BT, state, padding=padding_BT, prefix=prefix)
    return model.logits(features[:, -1])


def decode(model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
    """One more token per row into `state` (its slot already reserved); logits of the next, (B, V)."""
    return model.logits(model.advance(tokens_B[:, None], state)[:, -1])


def read_source(
    model: Transformer,
    source: Tensor,
    source_padding: Tensor | None,
    tokens_BT: Tensor,
    padding_BT: Tensor | None,
    state: StackState,
) -> Tensor:
    """Read the source and the target's beginning into `state`; logits of the next token of the target, (B, V)."""
    features = model.features(source, tokens_BT, padding=source_padding, decoder_padding=padding_BT, state=state)
    return model.logits(features[:, -1])


@torch.inference_mode()
def continuations(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    sampling: Sampling,
    max_tokens: int,
    end: int | None = None,
    start: int | None = None,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
    step: Step = decode,
    multiple: int = 1,
) -> Iterator[Tensor]:
    """The next token of every prompt, (B,), again and again, until all rows have ended or `max_tokens` have come.

    Prompts of unequal length are padded on the left. A row that has given `end` goes on giving it. `step` may be a compiled
    `decode`; `multiple`: see `Slots`.

    Of a model with two inputs, either prompts are sources of text and `start` is the first token of every target; or `source`
    holds the sources, of whatever kind the model reads, with `source_padding`, and prompts are how the targets begin.
    """
    check(model, prompts, max_tokens, start, source)
    device = model.device
    _foretell(model, prompts, max_tokens, start, source)
    tokens, padding = pad_left(prompts, device)
    if start is not None:
        source, source_padding = tokens, padding
        tokens, padding = torch.full((len(prompts), 1), start, device=device), None
    capacity = -(-(max_tokens + tokens.shape[1]) // multiple) * multiple
    if source is None:
        state = model.state(len(prompts), capacity)
        logits = prefill(model, tokens, padding, state)
    else:
        read = model.architecture.embedding.check("source", source, source_padding)
        state = model.state(len(prompts), capacity, source=read)
        logits = read_source(model, source, source_padding, tokens, padding, state)
    rows = torch.arange(len(prompts), device=device)
    ended = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    for index in range(max_tokens):
        chosen = sampling.choose(logits, rows, index)
        if end is not None:
            chosen = torch.where(ended, end, chosen)
            ended = ended | (chosen == end)
        yield chosen
        if index + 1 == max_tokens or (end is not None and bool(ended.all())):
            return
        state.slots.reserve(1, multiple)
        logits = step(model, chosen, state)


def check(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    start: int | None,
    source: Tensor | None = None,
) -> None:
    """Refuse what cannot be generated, with the reason, before any work."""
    architecture = model.architecture
    kind, two = architecture.shape_of_model, architecture.two_inputs
    if architecture.decoder is None or architecture.latents is not None or architecture.head is None:
        raise InputError(f"a {kind} model {'without a head ' if architecture.head is None else ''}does not generate text")
    reasons = architecture.cost(Shape()).breaks("stepwise")
    if reasons:
        raise InputError(f"this architecture cannot generate token by token: {'; '.join(reasons)}")
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
        raise InputError(f"this {kind} model reads one sequence: leave start and source out")
    if source is not None and len(source) != len(prompts):
        raise InputError(f"there are {len(source)} sources and {len(prompts)} prompts; give one of each per row")
    entrance = architecture.output_embedding if start is None else architecture.embedding
    highest = max(token for prompt in prompts for token in prompt)
    if entrance.symbols is None:
        raise InputError(
            f"the source is {entrance.kind}, not text: hand it over as source, and the target's beginning as prompt"
        )
    if highest >= entrance.symbols:
        raise InputError(f"token {highest} is beyond the vocabulary of {entrance.symbols}: is this the model's tokenizer?")
    room = architecture.output_stack.max_length
    longest = max_tokens + (1 if start is not None else max(len(prompt) for prompt in prompts)) - 1
    if source is not None and architecture.source == "prefix":
        longest += architecture.embedding.check("source", source, None)
    if room is not None and longest > room:
        raise InputError(f"prompt and text would reach {longest} positions, and the position table ends at {room}; shorten one")


def _foretell(
    model: Transformer, prompts: Sequence[Sequence[int]], max_tokens: int, start: int | None, source: Tensor | None
) -> None:
    """Refuse what does not fit into memory, before any of it is taken."""
    longest = max(len(prompt) for prompt in prompts)
    read = longest if start is not None else 0
    if source is not None:
        read = model.architecture.embedding.check("source", source, None)
    foretell_generation(
        model.architecture, rows=len(prompts), prompt=longest if start is None else 1, max_tokens=max_tokens, source=read,
        size=next(model.parameters()).itemsize, device=model.device,
    )  # fmt: skip


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """(B, T) tokens with padding on the left, and where it is, None if nowhere."""
    length = max(len(prompt) for prompt in prompts)
    tokens = torch.zeros(len(prompts), length, dtype=torch.int64, device=device)
    padding = torch.ones(len(prompts), length, dtype=torch.bool, device=device)
    for row, prompt in enumerate(prompts):
        tokens[row, length - len(prompt) :] = torch.tensor(prompt, device=device)
        padding[row, length - len(prompt) :] = False
    return tokens, padding if bool(padding.any()) else None
