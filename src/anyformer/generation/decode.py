"""Prefill and decode: functions of a model and its decode state, and the loop around them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyformer.generation.checks import check
from anyformer.generation.memory import grown
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.rereading import ReadInputs, Rereading
from anyformer.generation.sampling import Sampling
from anyformer.generation.sounds import SoundFrames, arguments_of
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder_module import Images

Step = Callable[[Transformer, Tensor, StackState], Tensor]
ROWS = {"cpu": 512}
"""Tokens of prompts that are read at once: products of so many run at their full rate, and what lies between them stays small.

On a processor twice as many were a third slower, and 16 prompts of 1,024 tokens at once took 2.7 times as long.
"""
ROWS_ELSEWHERE = 16_384
LEAST = 64
"""The fewest positions that are read at once, however many prompts there are."""
MOST, SHARE = 256, 8
"""Behind long beginnings an eighth as many positions are read at once, if no more than this: for each piece all keys and values
before it are converted. 16 prompts of 2,048 tokens took 34 seconds so, and 40 by 64 positions at a time."""


def prefill(
    model: Transformer,
    tokens_BT: Tensor,
    padding_BT: Tensor | None,
    state: StackState,
    images: Images | None = None,
    chunk: int | None = None,
    sounds: SoundFrames | None = None,
) -> Tensor:
    """Read the prompts into `state`; logits of the next token, (B, V). Prefix masks see the prompts as a prefix.

    They are read `chunk` positions at a time, by default as `ROWS` has it, or at once where pieces would differ from the whole.
    """
    (features,) = deque(read_pieces(model, tokens_BT, padding_BT, state, images, chunk, sounds), maxlen=1)
    return model.logits(features[:, -1])


def read_pieces(
    model: Transformer,
    tokens_BT: Tensor,
    padding_BT: Tensor | None,
    state: StackState,
    images: Images | None = None,
    chunk: int | None = None,
    sounds: SoundFrames | None = None,
    *,
    first: int = 0,
) -> Iterator[Tensor]:
    """Read the prompts into `state` as `prefill` does, piece by piece: the features of every piece, (B, n, D).

    `first`: how many of their positions `state` holds already, read in pieces as long.
    """
    length = tokens_BT.shape[1]
    lengths = torch.full((len(tokens_BT),), length, device=tokens_BT.device)
    prefix = lengths if padding_BT is None else (~padding_BT).sum(1)
    if images is not None or sounds is not None or reads_whole(model, padding_BT):
        chunk = length
    padded = 0 if padding_BT is None else int(padding_BT.sum(1).max())
    stop = first
    while stop < length:
        start, stop = stop, stop + chunk_of(model, chunk, len(tokens_BT), stop)
        padding = padding_BT[:, start:stop] if padding_BT is not None and start < padded else None
        yield model.features(
            tokens_BT[:, start:stop], padding=padding, prefix=prefix, state=state, images=images, **arguments_of(sounds)
        )


def chunk_of(model: Transformer, chunk: int | None = None, rows: int = 1, before: int = 0) -> int:
    """Positions of some rows that are read at once behind those `before`: `chunk`, or as `ROWS` has it."""
    if chunk is not None:
        return chunk
    return max(LEAST, ROWS.get(model.device.type, ROWS_ELSEWHERE) // rows, min(MOST, before // SHARE))


def reads_whole(model: Transformer, padding_BT: Tensor | None = None) -> bool:
    """Whether a prompt cannot be read in pieces: its parts say so, or padding would come between virtual tokens and it."""
    architecture = model.architecture
    cost = architecture.folded_cost(Shape())
    between = architecture.virtual_tokens is not None and padding_BT is not None
    return between or bool(cost.breaks("chunked") or cost.breaks("cached"))


def decode(model: Transformer, tokens_B: Tensor, state: StackState) -> Tensor:
    """One more token per row into `state` (its slot already reserved); logits of the next, (B, V)."""
    return model.logits(model.advance(tokens_B[:, None], state)[:, -1])


def read_on(model: Transformer, tokens_BT: Tensor, state: StackState) -> Tensor:
    """More tokens into `state` (their slots already reserved); logits after each, (B, T, V)."""
    return model.logits(model.advance(tokens_BT, state))


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


class Grow(Protocol):
    """A state, or a larger copy of it, that holds `count` more positions of `batch` rows."""

    def __call__(self, state: StackState | None, *, batch: int, count: int) -> StackState: ...


def begin(
    model: Transformer,
    tokens: Tensor,
    padding: Tensor | None,
    *,
    max_tokens: int,
    start: int | None = None,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
    images: Images | None = None,
    sounds: SoundFrames | None = None,
    step: Step = decode,
    multiple: int = 1,
) -> tuple[Tensor, StackState, Grow, Rereading]:
    """Read prompts; the logits of the next token, (B, V), the state, what makes room in it, and `step` for it.

    Arguments as in `continued`.
    """
    if start is not None:
        source, source_padding = tokens, padding
        tokens, padding = torch.full((len(tokens), 1), start, device=tokens.device), None
    read = 0 if source is None else model.architecture.embedding.check("source", source, source_padding)
    most = -(-(max_tokens + tokens.shape[1]) // multiple) * multiple
    grow = partial(grown, model, most=most, source=read)
    state = grow(None, batch=len(tokens), count=tokens.shape[1])
    if source is None:
        logits = prefill(model, tokens, padding, state, images, sounds=sounds)
    else:
        logits = read_source(model, source, source_padding, tokens, padding, state)
    again = Rereading(model, step)
    again.begin(tokens, padding, state, ReadInputs(source, read, source_padding, images, sounds))
    return logits, state, grow, again


def going_on(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    sampling: Sampling,
    max_tokens: int,
    ends: Sequence[int] = (),
    start: int | None = None,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
    images: Images | None = None,
    sounds: SoundFrames | None = None,
    step: Step = decode,
    multiple: int = 1,
    answers: int = 1,
) -> Iterator[tuple[Tensor, Tensor]]:
    """The next token of every row, (B,), and the logits that it was chosen from, (B, V), again and again.

    It stops when all rows have ended, or `max_tokens` have come. Prompts of unequal length are padded on the left. A row that
    has given one of `ends` goes on giving it. `step` may be a compiled `decode`; `multiple`: see `Slots`. `answers`: rows that
    go on with each prompt, one behind the other.

    For a model with two inputs, either prompts are sources of text and `start` is the first token of every target; or
    `source` holds the sources, of any kind that the model reads, with `source_padding`, and prompts begin the targets.
    `images`, `sounds`: those that the prompts show, in order, each with all of its tokens in its prompt.
    """
    check(model, prompts, max_tokens, start, source, images, heard=sounds is not None, rows=len(prompts) * answers)
    device = model.device
    tokens, padding = pad_left(prompts, device)
    texts = _texts(prompts, start, source, source_padding, device, ends, max_tokens) if sampling.reads else None
    logits, state, grow, again = begin(
        model, tokens, padding, max_tokens=max_tokens, start=start, source=source, source_padding=source_padding, images=images,
        sounds=sounds, step=step, multiple=multiple,
    )  # fmt: skip
    if answers > 1:
        each = torch.arange(len(prompts), device=device).repeat_interleave(answers)
        state, logits, texts = state.fork(each), logits[each], texts and texts.fork(each.tolist())
        again.reorder(each)
    rows = torch.arange(len(logits), device=device)
    ended, stops = torch.zeros(len(rows), dtype=torch.bool, device=device), torch.tensor(list(ends), device=device)
    next_B = rows
    for index in range(max_tokens):
        chosen = sampling.choose(logits, rows, index, texts)
        next_B = torch.where(ended, next_B, chosen) if ends else chosen
        if ends:
            ended = ended | torch.isin(next_B, stops)
        yield next_B, logits
        if index + 1 == max_tokens or (ends and bool(ended.all())):
            return
        if texts is not None:
            texts.add(next_B)
        state = grow(state, batch=len(rows), count=1)
        state.slots.reserve(1, multiple)
        logits = again(model, next_B, state)


def continued(model: Transformer, prompts: Sequence[Sequence[int]], **settings: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """`going_on` without any record of what is computed, which a model that learns between its steps may need."""
    steps, mode = going_on(model, prompts, **settings), torch.inference_mode()
    while True:
        with mode:
            each = next(steps, None)
        if each is None:
            return
        yield each


def continuations(model: Transformer, prompts: Sequence[Sequence[int]], **settings: Any) -> Iterator[Tensor]:
    """The next token of every row, (B,), again and again: `continued` without the logits."""
    return (next_B for next_B, _ in continued(model, prompts, **settings))


def _texts(
    prompts: Sequence[Sequence[int]],
    start: int | None,
    source: Tensor | None,
    source_padding: Tensor | None,
    device: torch.device,
    ends: Sequence[int],
    most: int,
) -> Prefixes:
    """What every row says so far, and its source where that is text."""
    if source is None or source.is_floating_point():
        return Prefixes.begun(prompts, start, device, ends=ends, most=most)
    padding = torch.zeros_like(source, dtype=torch.bool) if source_padding is None else source_padding
    sources = [row[~unused].tolist() for row, unused in zip(source, padding, strict=True)]
    return Prefixes.of(prompts, device, ends=ends, most=most, sources=sources)


def pad_left(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """(B, T) tokens with padding on the left, and the padding as bool (B, T), or None without any."""
    rows = [torch.tensor(prompt, dtype=torch.int64, device=device) for prompt in prompts]
    tokens = pad_sequence(rows, batch_first=True, padding_side="left")
    lengths = torch.tensor([[len(row)] for row in rows], device=device)
    padding = torch.arange(tokens.shape[1], device=device) < tokens.shape[1] - lengths
    return tokens, padding if bool(padding.any()) else None
