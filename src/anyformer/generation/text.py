"""Text in, text out: streaming, stop strings, several prompts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Unpack, cast

from anyformer.describe import InputError
from anyformer.generation.chances import Token
from anyformer.generation.checks import check, check_chats, check_model, fills_masks
from anyformer.generation.images import begun, source_of, with_images
from anyformer.generation.rows import Continuation, TextRow, Told
from anyformer.generation.running import GenerationJob, Given, running, searching
from anyformer.generation.sampling import Sampling
from anyformer.generation.settings import GenerationSettings, decoding_for, ends_for, start_for, within
from anyformer.generation.sounds import with_sounds
from anyformer.generation.unmasking import check_unmasked, unmasked
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer
from anyformer.text.chat import Chat, Turns, prompt_tokens
from anyformer.text.marked import encode_marked
from anyformer.text.sides import Sides

Prompt = str | Chat | Turns | Sequence[int]
Pieces = Iterator[tuple[int, str]]


def generate(
    model: Transformer,
    tokenizer: Tokenizer | None,
    prompt: Prompt | Sequence[Prompt],
    **settings: Unpack[GenerationSettings],
) -> Any:
    """The continuation of a prompt, without it: text for text, token numbers for token numbers; a list for several prompts.

    With `chat`, a prompt is what a user says, a list of turns, or a `Chat`.
    With several `answers`, a list of them takes the place of each. Token numbers need no tokenizer; with one, the ends that its
    model's authors name end them. For `settings` see `GenerationSettings`.
    """
    one = isinstance(prompt, str | Chat) or (len(prompt) > 0 and isinstance(prompt[0], int | Mapping))
    prompts: Any = [prompt] if one or isinstance(prompt, Chat) else list(prompt)
    texts = all(isinstance(each, str) or _turns(each) is not None for each in prompts)
    if not texts and (settings.get("stop") or settings.get("chat")):
        word = "stop strings are" if settings.get("stop") else "a chat is"
        raise InputError(
            f"{word} text, and the prompts are token numbers: leave {'stop' if settings.get('stop') else 'chat'} out"
        )
    if texts and tokenizer is None:
        raise _no_tokenizer(model)
    run = _Run(model, tokenizer, prompts, settings)
    answers = run.answers()
    found: list[Any] = [each.text for each in answers] if texts else [run.without_end(each) for each in answers]
    if run.decoding.answers > 1:
        found = [found[at : at + run.decoding.answers] for at in range(0, len(found), run.decoding.answers)]
    return found[0] if one else found


def generated(
    model: Transformer, tokenizer: Tokenizer | None, prompts: Sequence[Prompt], **settings: Unpack[GenerationSettings]
) -> list[Continuation]:
    """What came of every prompt: text, tokens, why it ended, and with `logprobs` how likely each token was.

    The `answers` of one prompt stand one behind the other.
    """
    return _Run(model, tokenizer, prompts, settings).answers()


def generate_tokens(
    model: Transformer, prompts: Sequence[Sequence[int]], **settings: Unpack[GenerationSettings]
) -> list[list[int]]:
    """The tokens that follow each prompt of token numbers, up to one of `ends`, which is left out, or `max_tokens`."""
    run = _Run(model, None, prompts, settings)
    return [run.without_end(each) for each in run.answers()]


def stream(
    model: Transformer, tokenizer: Tokenizer | None, prompts: Sequence[Prompt], **settings: Unpack[GenerationSettings]
) -> Pieces:
    """(row, text) as the text comes. A row ends at one of its ends, before the first `stop` string, or at `max_tokens`.

    A prompt is text, or the tokens of one. With `images` special tokens that it spells are these tokens: one per image. Of a
    model that reads images as sources, a prompt begins the text beside its image, and may be empty.
    Wrong arguments are refused by the call itself, not when the first piece is read. A model that fills masks gives each text
    at once, as a search with beams does; its tokenizer needs a mask token. For `settings` see `GenerationSettings`.
    """
    if tokenizer is None:
        raise _no_tokenizer(model)
    return _Run(model, tokenizer, prompts, settings).pieces


class _Run:
    """A generation that was checked and has begun: `rows` hold what comes as `pieces` are read."""

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer | None, prompts: Sequence[Prompt], settings: GenerationSettings
    ) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.decoding = decoding_for(tokenizer, settings)
        self.ends = ends_for(tokenizer, settings, next((each.template for each in prompts if isinstance(each, Chat)), None))
        images, sounds = settings.get("images"), settings.get("sounds")
        given = [self._read(prompt) for prompt in prompts]
        if fills_masks(model) and tokenizer is not None and tokenizer.find("mask") is not None:
            self._refuse_for_masks()
            self.most = self.decoding.most(max(map(len, given), default=0))
            check_unmasked(model, given, self.most, None, settings.get("block"))
            self._make_rows(given)
            self.pieces = self._revealed(given, tokenizer)
            return
        check_model(model)
        first = [] if tokenizer is None or tokenizer.end_of_text is None else [tokenizer.end_of_text]
        source, start = source_of(model, images, len(prompts)), start_for(model, tokenizer, settings)
        if source is not None:
            given, start, images = begun(given, start), None, None
        before = 0 if tokenizer is None else len(tokenizer.frame.single.before)
        tokens = [each or first for each in with_sounds(model, with_images(model, given, images, before), sounds, before)]
        self.most = self.decoding.most(max(map(len, tokens), default=0) if start is None else 1)
        beams, batch = self.decoding.beams, settings.get("batch")
        texts = len(tokens) * (self.decoding.answers if beams is None else 1)
        together = texts if batch is None else min(batch, texts)
        rows = together if beams is None else beams.rows(together)
        check(model, tokens, self.most, start, source, images=images, batch=batch, rows=rows, heard=sounds is not None)
        self._refuse_together(beams is not None)
        self._make_rows(tokens if start is None else [[start]] * len(tokens))
        job = GenerationJob(
            model, tokens, within(self.decoding.sampling, model, tokenizer), self.most, self.ends, start,
            self.decoding.answers, images, batch, settings.get("compile"), settings.get("logprobs"), source, sounds,
            settings.get("places"),
        )  # fmt: skip
        if beams is not None:
            found = searching(job, beams, stops=self._stops() if self.decoding.stop else None, over=self.decoding.over())
            self.pieces = self._found(found)
            return
        steps = running(
            job, draft=settings.get("draft"), acceptance=settings.get("acceptance"), ended=lambda row: self.rows[row].ended
        )  # fmt: skip
        self.pieces = self._said(steps)

    def answers(self) -> list[Continuation]:
        """All that comes."""
        texts = [""] * len(self.rows)
        for row, piece in self.pieces:
            texts[row] += piece
        named = [None if self.tokenizer is None else text for text in texts]
        pairs = enumerate(zip(self.rows, named, strict=True))
        return [row.answer(number // self.decoding.answers, text) for number, (row, text) in pairs]

    def without_end(self, answer: Continuation) -> list[int]:
        """Its tokens without the end."""
        return list(answer.tokens[:-1] if answer.reason == "end" else answer.tokens)

    def _read(self, prompt: Prompt) -> list[int]:
        """The tokens of a prompt, with what the tokenizer puts around a text."""
        chat, turns = self.settings.get("chat"), _turns(prompt)
        if turns is None and not isinstance(prompt, str):
            if chat:
                raise InputError("a chat is text, and the prompts are token numbers: leave chat out")
            return list(cast("Sequence[int]", prompt))
        assert self.tokenizer is not None, "asked for text"
        marked = any(self.settings.get(key) is not None for key in ("images", "sounds"))
        if chat:
            check_chats(self.model)
            return prompt_tokens(self.tokenizer, turns or [{"role": "user", "content": prompt}], marked=marked)
        if not isinstance(prompt, str):
            raise InputError("a prompt is a list of turns, which the chat template writes: give chat = True")
        text = encode_marked(self.tokenizer, prompt) if marked else self.tokenizer.encode(prompt)
        if marked and self.model.architecture.two_inputs:
            return [*Sides.of(self.tokenizer).opening, *text]
        return text if fills_masks(self.model) else self.tokenizer.framed(text).tokens

    def _make_rows(self, before: Sequence[Sequence[int]]) -> None:
        """The rows, each behind its prompt or its target's beginning."""
        count = self.decoding.answers
        special, stop = self.settings.get("special", False), self.decoding.stop
        make = partial(TextRow, self.tokenizer, stop, self.ends, most=self.most, special=special)
        self.rows = [make(prompt=prompt) for prompt in before for _ in range(count)]
        self.told = Told(len(self.rows), self.settings.get("done"))

    def _stops(self) -> Callable[[Sequence[int]], bool]:
        """Whether new tokens have a stop string, special tokens by their names among them."""
        tokenizer = self.tokenizer
        assert tokenizer is not None, "stop strings are text"
        return lambda tokens: any(text in tokenizer.decode(tokens, special=True) for text in self.decoding.stop)

    def _said(self, steps: Given) -> Pieces:
        """(row, text) of every piece of text that the tokens make certain."""
        over = self.decoding.over() or (lambda: False)
        for step in steps:
            for token in step:
                if token.row not in self.told:
                    yield from self._pushed(token)
            if self.told.all:
                return
            if over():
                yield from chain.from_iterable(self._finished(row) for row in range(len(self.rows)))
                return

    def _found(self, found: Iterator[Sequence[Any]]) -> Pieces:
        """(row, text) of the texts that a search finds."""
        for number, best in enumerate(found):
            for place, hypothesis in enumerate(best):
                row = number * self.decoding.answers + place
                self.rows[row].score = hypothesis.score
                yield from self._whole(row, hypothesis.tokens)

    def _whole(self, row: int, tokens: Sequence[int]) -> Pieces:
        """A text that comes at once."""
        pieces = [piece for token in tokens for _, piece in self._pushed(Token(row, token))]
        if text := "".join([*pieces, *(piece for _, piece in self._finished(row))]):
            yield row, text

    def _pushed(self, token: Token) -> Pieces:
        piece = self.rows[token.row].push(token)
        if piece:
            yield token.row, piece
        if self.rows[token.row].ended:
            self.told.add(token.row)

    def _finished(self, row: int) -> Pieces:
        """The rest of a row for which no time is left."""
        if piece := self.rows[row].finish("time"):
            yield row, piece
        self.told.add(row)

    def _revealed(self, prompts: Sequence[Sequence[int]], tokenizer: Tokenizer) -> Pieces:
        """(row, text) of every row, by filling masks, `batch` rows at a time."""
        batch = self.settings.get("batch") or len(prompts)
        for first in range(0, len(prompts), batch):
            *_, last = unmasked(
                self.model, prompts[first : first + batch], mask=tokenizer.special("mask"), sampling=self.decoding.sampling,
                max_tokens=self.most, block=self.settings.get("block"), first=first,
            )  # fmt: skip
            for number, tokens in enumerate(last.tolist(), start=first):
                yield from self._whole(number, tokens)

    def _refuse_for_masks(self) -> None:
        """Refuse what a model that fills masks does not do."""
        sampling: Sampling = self.decoding.sampling
        for asked, words in (
            (self.settings.get("draft") is not None, "the draft"), (self.decoding.beams is not None, "the beams"),
            (self.decoding.answers > 1, "several answers"), (self.settings.get("logprobs") is not None, "logprobs"),
            (sampling.reads, "what depends on the text so far"), (isinstance(sampling.seed, tuple), "seeds of rows"),
        ):  # fmt: skip
            if asked:
                raise InputError(f"a model that fills masks does not write token after token: leave {words} out")

    def _refuse_together(self, searches: bool) -> None:
        """Refuse what contradicts itself."""
        if self.model.share is not None and self.decoding.max_time is not None:
            raise InputError(
                f"max_time = {self.decoding.max_time:g} ends texts by a clock, and each of {self.model.share.processes} "
                "processes has its own: give max_tokens instead, or start one process"
            )
        if self.settings.get("places") is not None:
            self._refuse_elsewhere(searches)
        if searches and self.settings.get("draft") is not None:
            raise InputError("tokens are proposed for one text, and beams are several: leave the draft or the beams out")
        if searches and self.settings.get("logprobs") is not None:
            raise InputError("a search gives scores of whole texts: leave logprobs or the beams out")
        if (count := self.settings.get("logprobs")) is not None and count < 0:
            raise InputError(f"logprobs = {count} should be 0 or more of the likeliest tokens")

    def _refuse_elsewhere(self, searches: bool) -> None:
        """Refuse what the model itself alone computes."""
        beside = ("draft", "images", "sounds", "block")
        named = [name for name in beside if self.settings.get(name) is not None] + ["beams"] * searches
        named += ["compile"] if self.settings.get("compile") else []
        if named or self.model.architecture.two_inputs:
            raise InputError(f"another engine reads one text and its tokens alone: leave {' and '.join(named) or 'it'} out")


def _turns(prompt: Any) -> Chat | Turns | None:
    """The chat that a prompt is; None for text and token numbers."""
    if isinstance(prompt, Chat):
        return prompt
    return prompt if not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping) else None


def _no_tokenizer(model: Transformer) -> InputError:
    check_model(model)
    return InputError(
        "this model has no tokenizer, so text cannot become tokens: give token numbers, as --tokens 1,2,3 or a list of them"
    )
