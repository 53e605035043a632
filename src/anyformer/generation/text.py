"""Text in, text out: streaming, stop strings, several prompts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from torch import Tensor

from anyformer.generation.checks import check, check_model, fills_masks
from anyformer.generation.drafting import Drafter
from anyformer.generation.images import with_images
from anyformer.generation.running import Given, running
from anyformer.generation.sampling import Sampling
from anyformer.generation.speculative import Acceptance
from anyformer.generation.unmasking import unmasked
from anyformer.model import InputError, Transformer
from anyformer.parts.images.encoder import Images
from anyformer.text import StreamDecoder, Tokenizer
from anyformer.text.chat import answer_end, prompt_tokens
from anyformer.text.marked import encode_marked


def generate(
    model: Transformer,
    tokenizer: Tokenizer | None,
    prompt: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]],
    *,
    max_tokens: int = 128,
    sampling: Sampling | None = None,
    stop: Sequence[str] = (),
    compile: bool | None = None,
    chat: bool = False,
    images: Images | None = None,
    batch: int | None = None,
    draft: Drafter | Transformer | None = None,
    acceptance: Acceptance | None = None,
) -> Any:
    """The continuation of a prompt, without it: text for text, token numbers for token numbers; a list for several prompts.

    Token numbers need no tokenizer; with one, its end-of-text token ends them. Other arguments as in `stream`.
    `images` (n, channels, height, width): those of all prompts in order, each where its prompt has the token for an image.
    """
    one = isinstance(prompt, str) or (len(prompt) > 0 and isinstance(prompt[0], int))
    prompts: Any = [prompt] if one else list(prompt)
    settings: dict[str, Any] = {
        "max_tokens": max_tokens, "sampling": sampling, "compile": compile, "images": images, "batch": batch, "draft": draft,
        "acceptance": acceptance,
    }  # fmt: skip
    if not all(isinstance(text, str) for text in prompts):
        if stop or chat:
            word = "stop strings are" if stop else "a chat is"
            raise InputError(f"{word} text, and the prompts are token numbers: leave {'stop' if stop else 'chat'} out")
        end = None if tokenizer is None else tokenizer.end_of_text
        tokens = generate_tokens(model, prompts, end=end, **settings)
        return tokens[0] if one else tokens
    texts = ["" for _ in prompts]
    for row, piece in stream(model, tokenizer, prompts, stop=stop, chat=chat, **settings):
        texts[row] += piece
    return texts[0] if one else texts


def generate_tokens(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int = 128,
    sampling: Sampling | None = None,
    end: int | None = None,
    compile: bool | None = None,
    images: Images | None = None,
    batch: int | None = None,
    draft: Drafter | Transformer | None = None,
    acceptance: Acceptance | None = None,
    done: Callable[[int], None] | None = None,
) -> list[list[int]]:
    """The tokens that follow each prompt of token numbers, up to `end`, which is left out, or `max_tokens`.

    `batch`, `draft`, `acceptance`, `done`: as in `stream`.
    """
    prompts = with_images(model, prompts, images)
    rows: list[list[int]] = [[] for _ in prompts]
    over = _Told(len(rows), done)
    steps = running(
        model, prompts, max_tokens=max_tokens, sampling=sampling, end=end, compile=compile, images=images, batch=batch,
        draft=draft, acceptance=acceptance, ended=over.__contains__,
    )  # fmt: skip
    for row, token in chain.from_iterable(steps):
        if row not in over:
            if token != end:
                rows[row].append(token)
            if token == end or len(rows[row]) == max_tokens:
                over.add(row)
    return rows


def stream(
    model: Transformer,
    tokenizer: Tokenizer | None,
    prompts: Sequence[str | Sequence[int]],
    *,
    max_tokens: int = 128,
    sampling: Sampling | None = None,
    stop: Sequence[str] = (),
    compile: bool | None = None,
    block: int | None = None,
    chat: bool = False,
    images: Images | None = None,
    batch: int | None = None,
    draft: Drafter | Transformer | None = None,
    acceptance: Acceptance | None = None,
    done: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, str]]:
    """(row, text) as the text comes. A row ends at the end-of-text token, before the first `stop` string, or at `max_tokens`.

    A prompt is text, or the tokens of one. With `images` special tokens that it spells are these tokens: one for each image.

    Wrong arguments are refused by the call itself, not when the first piece is read. `compile`: None compiles only jobs long
    enough to recover the time. A model that fills masks gives each text at once, `block` positions revealed before the next
    ones (by default all together); its tokenizer needs a mask token. `chat`: each prompt is what a user says, written by the
    tokenizer's chat template, and a row ends where the answer does. `batch`: prompts at a time, each of which leaves its place
    to the next when it ends, by default all together; the texts are the same. `done`: told the number of each row that ended.
    `draft`: what proposes tokens, several of which one pass of the model then verifies (`speculative`): a smaller model, a
    `Draft`, or a `Lookup`; then one prompt is computed after the other. `acceptance` counts what was proposed and taken.
    """
    if tokenizer is None:
        check_model(model)
        raise InputError(
            "this model has no tokenizer, so text cannot become tokens: give token numbers, as --tokens 1,2,3 or a list of them"
        )
    if any(not text for text in stop):
        raise InputError("a stop string is empty")
    end = tokenizer.end_of_text
    if chat:
        if model.architecture.two_inputs or fills_masks(model):
            raise InputError("a chat is gone on with by a decoder that predicts the next token, which this model is not")
        given = [prompt_tokens(tokenizer, _asked(prompt), marked=images is not None) for prompt in prompts]
        end = answer_end(tokenizer)
    else:
        read = tokenizer.encode if images is None else partial(encode_marked, tokenizer)
        given = [read(prompt) if isinstance(prompt, str) else list(prompt) for prompt in prompts]
    if fills_masks(model) and tokenizer.find("mask") is not None:
        if draft is not None:
            raise InputError("a model that fills masks does not write token after token: leave the draft out")
        rows = [_Row(tokenizer, stop, end) for _ in prompts]
        revealing = partial(unmasked, model, mask=tokenizer.special("mask"), max_tokens=max_tokens, block=block)
        return _revealed(revealing, given, sampling or Sampling(), rows, batch or len(given), _Told(len(rows), done))
    check_model(model)
    tokens = with_images(model, [each or ([] if end is None else [end]) for each in given], images)
    check(model, tokens, max_tokens, end if model.architecture.two_inputs else None, images=images, batch=batch)
    rows = [_Row(tokenizer, stop, end) for _ in prompts]
    steps = running(
        model, tokens, max_tokens=max_tokens, sampling=sampling, end=end, compile=compile, images=images, batch=batch,
        draft=draft, acceptance=acceptance, ended=lambda row: rows[row].ended,
    )  # fmt: skip
    return _pieces(steps, rows, max_tokens, _Told(len(rows), done))


def _revealed(
    revealing: Callable[..., Iterator[Tensor]],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    rows: Sequence[_Row],
    batch: int,
    over: _Told,
) -> Iterator[tuple[int, str]]:
    """(row, text) of every row, by filling masks, `batch` rows at a time."""
    for first in range(0, len(prompts), batch):
        *_, last = revealing(prompts[first : first + batch], sampling=sampling, first=first)
        for number, numbers in enumerate(last.tolist(), first):
            yield number, "".join(map(rows[number].push, numbers)) + rows[number].finish()
            over.add(number)


def _asked(prompt: str | Sequence[int]) -> list[dict[str, str]]:
    """The chat that begins with a prompt."""
    if not isinstance(prompt, str):
        raise InputError("a chat is text, and the prompts are token numbers: leave chat out")
    return [{"role": "user", "content": prompt}]


def _pieces(steps: Given, rows: Sequence[_Row], max_tokens: int, over: _Told) -> Iterator[tuple[int, str]]:
    """(row, text) of every piece of text that the tokens make certain."""
    for number, token in chain.from_iterable(steps):
        if number in over:
            continue
        row = rows[number]
        piece = row.push(token)
        if row.tokens == max_tokens:
            piece += row.finish()
        if piece:
            yield number, piece
        if row.ended:
            over.add(number)
            if over.all:
                return


class _Told:
    """The rows that have ended, each of which `done` is told once."""

    def __init__(self, count: int, done: Callable[[int], None] | None) -> None:
        self._count, self._done, self._rows = count, done, set[int]()

    def __contains__(self, row: object) -> bool:
        return row in self._rows

    def add(self, row: int) -> None:
        self._rows.add(row)
        if self._done is not None:
            self._done(row)

    @property
    def all(self) -> bool:
        return len(self._rows) == self._count


class _Row:
    """The text of one row; an ending that may be the beginning of a stop string is held back."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str], end: int | None) -> None:
        self._decoder, self._stop, self._end = StreamDecoder(tokenizer), tuple(stop), end
        self._held = ""
        self.ended, self.tokens = False, 0

    def push(self, token: int) -> str:
        """The text that `token` makes certain."""
        if self.ended:
            return ""
        self.tokens += 1
        if token == self._end:
            return self.finish()
        self._held += self._decoder.push(token)
        return self._release(len(self._held) - self._may_stop())

    def finish(self) -> str:
        """The rest of the text, when no more tokens come."""
        if self.ended:
            return ""
        self._held += self._decoder.finish()
        text = self._release(len(self._held))
        self.ended = True
        return text

    def _release(self, certain: int) -> str:
        """The text up to `certain`, or up to the first stop string, which ends the row."""
        stops = [self._held.index(text) for text in self._stop if text in self._held]
        if stops:
            self.ended, certain = True, min(stops)
        text, self._held = self._held[:certain], self._held[certain:]
        return text

    def _may_stop(self) -> int:
        """The number of last characters that may be the beginning of a stop string."""
        lengths = [n for text in self._stop for n in range(1, len(text)) if self._held.endswith(text[:n])]
        return max(lengths, default=0)
