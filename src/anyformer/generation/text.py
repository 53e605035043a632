"""Text in, text out: streaming, stop strings, several prompts at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyformer.data import StreamDecoder, Tokenizer
from anyformer.generation.compiled import stepper
from anyformer.generation.decode import continuations
from anyformer.generation.sampling import Sampling
from anyformer.model import InputError, Transformer


def generate(
    model: Transformer,
    tokenizer: Tokenizer | None,
    prompt: str | Sequence[str],
    *,
    max_tokens: int = 128,
    sampling: Sampling | None = None,
    stop: Sequence[str] = (),
    compile: bool | None = None,
) -> str | list[str]:
    """The continuation of a prompt, or of each of several, without the prompt. Arguments as in `stream`."""
    prompts = [prompt] if isinstance(prompt, str) else list(prompt)
    texts = ["" for _ in prompts]
    for row, piece in stream(model, tokenizer, prompts, max_tokens=max_tokens, sampling=sampling, stop=stop, compile=compile):
        texts[row] += piece
    return texts[0] if isinstance(prompt, str) else texts


def stream(
    model: Transformer,
    tokenizer: Tokenizer | None,
    prompts: Sequence[str],
    *,
    max_tokens: int = 128,
    sampling: Sampling | None = None,
    stop: Sequence[str] = (),
    compile: bool | None = None,
) -> Iterator[tuple[int, str]]:
    """(row, text) as the text comes. A row ends at the end-of-text token, before the first `stop` string, or at `max_tokens`.

    `compile`: None compiles only jobs long enough to win the time back.
    """
    if tokenizer is None:
        raise InputError("this checkpoint has no tokenizer, so text cannot become tokens; generate from tokens instead")
    if any(not text for text in stop):
        raise InputError("a stop string is empty")
    end = tokenizer.end_of_text
    tokens = [tokenizer.encode(prompt) or ([] if end is None else [end]) for prompt in prompts]
    step, multiple = stepper(model, max_tokens, compile)
    rows = [_Row(tokenizer, stop, end) for _ in prompts]
    steps = continuations(
        model,
        tokens,
        sampling=sampling or Sampling(),
        max_tokens=max_tokens,
        end=end,
        start=end if model.architecture.two_inputs else None,
        step=step,
        multiple=multiple,
    )
    for chosen in steps:
        for number, (row, token) in enumerate(zip(rows, chosen.tolist(), strict=True)):
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
    """One row's text: holds back what may yet turn out to be the start of a stop string."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str], end: int | None) -> None:
        self._decoder, self._stop, self._end = StreamDecoder(tokenizer), tuple(stop), end
        self._held = ""
        self.ended = False

    def push(self, token: int) -> str:
        """The text that is certain after `token`."""
        if self.ended:
            return ""
        if token == self._end:
            return self.finish()
        self._held += self._decoder.push(token)
        found = [self._held.index(text) for text in self._stop if text in self._held]
        if found:
            self.ended = True
            return self._release(len(self._held), upto=min(found))
        return self._release(len(self._held) - self._may_stop())

    def finish(self) -> str:
        """The rest, when no more tokens come."""
        if self.ended:
            return ""
        self.ended = True
        self._held += self._decoder.finish()
        found = [self._held.index(text) for text in self._stop if text in self._held]
        return self._release(len(self._held), upto=min(found, default=len(self._held)))

    def _release(self, count: int, upto: int | None = None) -> str:
        text, self._held = self._held[: count if upto is None else upto], self._held[count:]
        return text

    def _may_stop(self) -> int:
        """How many last characters are the beginning of a stop string."""
        lengths = [n for text in self._stop for n in range(1, len(text)) if self._held.endswith(text[:n])]
        return max(lengths, default=0)
