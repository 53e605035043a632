"""Text in, text out: streaming, stop strings, several prompts at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from anyformer.data import StreamDecoder, Tokenizer
from anyformer.data.chat import answer_end, prompt_tokens
from anyformer.generation.checks import check, check_model, fills_masks
from anyformer.generation.decode import continuations
from anyformer.generation.images import with_images
from anyformer.generation.sampling import Sampling
from anyformer.generation.steps import stepper
from anyformer.generation.unmasking import unmasked
from anyformer.model import InputError, Transformer


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
    images: Tensor | None = None,
) -> Any:
    """The continuation of a prompt, without it: text for text, token numbers for token numbers; a list for several prompts.

    Token numbers need no tokenizer; with one, its end-of-text token ends them. Other arguments as in `stream`.
    `images` (n, channels, height, width): those of all prompts in order, each where its prompt has the token for an image.
    """
    one = isinstance(prompt, str) or (len(prompt) > 0 and isinstance(prompt[0], int))
    prompts: Any = [prompt] if one else list(prompt)
    if not all(isinstance(text, str) for text in prompts):
        if stop or chat:
            word = "stop strings are" if stop else "a chat is"
            raise InputError(f"{word} text, and the prompts are token numbers: leave {'stop' if stop else 'chat'} out")
        end = None if tokenizer is None else tokenizer.end_of_text
        tokens = generate_tokens(
            model, prompts, max_tokens=max_tokens, sampling=sampling, end=end, compile=compile, images=images
        )
        return tokens[0] if one else tokens
    texts = ["" for _ in prompts]
    settings: dict[str, Any] = {"max_tokens": max_tokens, "sampling": sampling, "stop": stop, "compile": compile, "chat": chat}
    for row, piece in stream(model, tokenizer, prompts, images=images, **settings):
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
    images: Tensor | None = None,
) -> list[list[int]]:
    """The tokens that follow each prompt of token numbers, up to `end`, which is left out, or `max_tokens`."""
    prompts = with_images(model, prompts, images)
    columns = [next_B.tolist() for next_B in _steps(model, prompts, max_tokens, sampling, end, compile, images)]
    rows: list[list[int]] = [list(row) for row in zip(*columns, strict=True)]
    return [row[: row.index(end)] if end is not None and end in row else row for row in rows]


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
    images: Tensor | None = None,
) -> Iterator[tuple[int, str]]:
    """(row, text) as the text comes. A row ends at the end-of-text token, before the first `stop` string, or at `max_tokens`.

    A prompt is text, or the tokens of one.

    Wrong arguments are refused by the call itself, not when the first piece is read. `compile`: None compiles only jobs long
    enough to recover the time. A model that fills masks gives each text at once, `block` positions revealed before the next
    ones (by default all together); its tokenizer needs a mask token. `chat`: each prompt is what a user says, written by the
    tokenizer's chat template, and a row ends where the answer does.
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
        given = [prompt_tokens(tokenizer, _asked(prompt)) for prompt in prompts]
        end = answer_end(tokenizer)
    else:
        given = [tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt) for prompt in prompts]
    if fills_masks(model) and tokenizer.find("mask") is not None:
        return _revealed(model, tokenizer, given, max_tokens, sampling or Sampling(), stop, block)
    check_model(model)
    tokens = with_images(model, [each or ([] if end is None else [end]) for each in given], images)
    check(model, tokens, max_tokens, end if model.architecture.two_inputs else None, images=images)
    steps = _steps(model, tokens, max_tokens, sampling, end, compile, images)
    return _pieces(steps, [_Row(tokenizer, stop, end) for _ in prompts])


def _revealed(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling,
    stop: Sequence[str],
    block: int | None,
) -> Iterator[tuple[int, str]]:
    """(row, text) of every row, by filling masks."""
    end = tokenizer.end_of_text
    steps = unmasked(
        model, prompts, mask=tokenizer.special("mask"), sampling=sampling, max_tokens=max_tokens, block=block
    )  # fmt: skip
    *_, last = steps
    for number, numbers in enumerate(last.tolist()):
        row = _Row(tokenizer, stop, end)
        yield number, "".join(map(row.push, numbers)) + row.finish()


def _asked(prompt: str | Sequence[int]) -> list[dict[str, str]]:
    """The chat that begins with a prompt."""
    if not isinstance(prompt, str):
        raise InputError("a chat is text, and the prompts are token numbers: leave chat out")
    return [{"role": "user", "content": prompt}]


def _steps(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling | None,
    end: int | None,
    compile: bool | None,
    images: Tensor | None = None,
) -> Iterator[Tensor]:
    """The next token of every prompt, (B,), step by step; targets of a model with two inputs start with `end`."""
    step, multiple = stepper(max_tokens, compile)
    return continuations(
        model, prompts, sampling=sampling or Sampling(), max_tokens=max_tokens, end=end,
        start=end if model.architecture.two_inputs else None, step=step, multiple=multiple,
        images=None if images is None else images.to(model.device),
    )  # fmt: skip


def _pieces(steps: Iterator[Tensor], rows: Sequence[_Row]) -> Iterator[tuple[int, str]]:
    """(row, text) of every piece of text that the tokens make certain."""
    for next_B in steps:
        for number, (row, token) in enumerate(zip(rows, next_B.tolist(), strict=True)):
            piece = row.push(token)
            if piece:
                yield number, piece
        if all(row.ended for row in rows):
            return
    for number, row in enumerate(rows):
        rest = row.finish()
        if rest:
            yield number, rest


class _Row:
    """The text of one row; an ending that may be the beginning of a stop string is held back."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str], end: int | None) -> None:
        self._decoder, self._stop, self._end = StreamDecoder(tokenizer), tuple(stop), end
        self._held = ""
        self.ended = False

    def push(self, token: int) -> str:
        """The text that `token` makes certain."""
        if self.ended:
            return ""
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
