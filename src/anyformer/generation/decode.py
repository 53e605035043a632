"""Prefill and decode: two pure functions over a model and its decode state, and the loop that joins them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from anyformer.generation.sampling import Sampling
from anyformer.model import InputError, Transformer
from anyformer.parts.stack import StackState
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


def read_source(model: Transformer, source_BS: Tensor, padding_BS: Tensor | None, start: int, state: StackState) -> Tensor:
    """Encode the source into `state` and feed the decoder its start token; logits of the first target token, (B, V)."""
    first = torch.full((len(source_BS), 1), start, device=source_BS.device)
    features = model.features(source_BS, first, padding=padding_BS, state=state)
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
    step: Step = decode,
    multiple: int = 1,
) -> Iterator[Tensor]:
    """The next token of every prompt, (B,), again and again, until all rows have ended or `max_tokens` have come.

    Prompts of unequal length are padded on the left. A row that has given `end` goes on giving it. `start`: first token
    of the decoder in an encoder-decoder, whose prompts are sources. `step` may be a compiled `decode`; `multiple`: see `Slots`.
    """
    check(model, prompts, max_tokens, start)
    device = model.embedding.weight.device
    tokens, padding = pad_left(prompts, device)
    two = model.architecture.shape_of_model == "encoder-decoder"
    capacity = max_tokens + (1 if two else tokens.shape[1])
    capacity = -(-capacity // multiple) * multiple
    state = model.state(len(prompts), capacity, source=tokens.shape[1] if two else 0)
    if two:
        assert start is not None
        logits = read_source(model, tokens, padding, start, state)
    else:
        logits = prefill(model, tokens, padding, state)
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


def check(model: Transformer, prompts: Sequence[Sequence[int]], max_tokens: int, start: int | None) -> None:
    """Refuse what cannot be generated, with the reason, before any work."""
    architecture = model.architecture
    kind = architecture.shape_of_model
    if kind == "encoder-only" or architecture.head is None:
        raise InputError(f"a {kind} model {'without a head ' if architecture.head is None else ''}does not generate text")
    reasons = architecture.cost(Shape()).breaks("causal")
    if reasons:
        raise InputError(f"this architecture cannot generate token by token: {'; '.join(reasons)}")
    if not prompts or any(len(prompt) == 0 for prompt in prompts):
        raise InputError("every prompt needs at least one token; use the end-of-text token to start from nothing")
    if max_tokens < 1:
        raise InputError(f"max_tokens should be at least 1, got {max_tokens}")
    if kind == "encoder-decoder" and start is None:
        raise InputError("an encoder-decoder needs the decoder's start token: give start")
    highest = max(token for prompt in prompts for token in prompt)
    if highest >= architecture.embedding.vocab:
        raise InputError(
            f"token {highest} is beyond the vocabulary of {architecture.embedding.vocab}: is this the model's tokenizer?"
        )
    room = architecture.output_stack.max_length
    longest = max_tokens + (1 if kind == "encoder-decoder" else max(len(prompt) for prompt in prompts)) - 1
    if room is not None and longest > room:
        raise InputError(f"prompt and text would reach {longest} positions, and the position table ends at {room}; shorten one")


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """(B, T) tokens with padding on the left, and where it is, None if nowhere."""
    length = max(len(prompt) for prompt in prompts)
    tokens = torch.zeros(len(prompts), length, dtype=torch.int64, device=device)
    padding = torch.ones(len(prompts), length, dtype=torch.bool, device=device)
    for row, prompt in enumerate(prompts):
        tokens[row, length - len(prompt) :] = torch.tensor(prompt, device=device)
        padding[row, length - len(prompt) :] = False
    return tokens, padding if bool(padding.any()) else None
