"""`ServedModel`: the model that a server speaks for, and the requests that bodies are for it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from anyformer.describe import did_you_mean
from anyformer.generation.checks import check_chats, check_model
from anyformer.generation.decoding import Decoding
from anyformer.generation.settings import decoding_for, ends_for, start_for, within
from anyformer.model.transformer import Transformer
from anyformer.serving.bodies import ChatBody, ChoiceBody, CompletionBody
from anyformer.serving.choosing import sampling_of, seed_of
from anyformer.serving.constraints import grammar_of
from anyformer.serving.conversations import ReplySource, asked_tokens, chat_of
from anyformer.serving.media import MediaReaders, read_media
from anyformer.serving.protocol_error import ProtocolError
from anyformer.serving.request import ServedRequest
from anyformer.text import Tokenizer
from anyformer.text.chat import templates
from anyformer.text.replies import ReplyForm

MOST_PROMPTS, MOST_TEXTS = 256, 512
"""Prompts of one request, and texts of all of them."""


@dataclass(frozen=True)
class AskedTexts:
    """What one request asks for: the `answers` texts of every prompt, one prompt's behind the other's."""

    texts: tuple[ServedRequest, ...]
    answers: int
    seed: int
    drawn: bool
    """Whether the server drew the seed."""
    body: ChoiceBody
    shown: bool
    """Whether what is made is shown, or the prompt alone."""
    replies: ReplySource | None = None
    """How answers of a chat are read."""

    @property
    def read(self) -> int:
        """Tokens of prompts, each counted once."""
        return sum(len(each.tokens) for each in self.texts[:: self.answers])


@dataclass
class ServedModel:
    """`length`: positions of a prompt and its text at most, None where memory alone bounds them. `model` and `adapters`, the
    model with each of them, are others after new weights were loaded."""

    name: str
    model: Transformer
    tokenizer: Tokenizer | None
    length: int | None = None
    replies: ReplyForm = field(default_factory=ReplyForm)
    """How answers of chats are read."""
    adapters: Mapping[str, Transformer] = field(default_factory=dict)
    media: MediaReaders = field(default_factory=MediaReaders)
    embeds: bool = True
    """Whether its features can be asked for: another engine gives logits alone."""
    created: int = field(default_factory=lambda: int(time.time()))

    @cached_property
    def usual(self) -> Decoding:
        """How texts are continued where nothing is said."""
        found = decoding_for(self.tokenizer, {})
        return replace(found, sampling=within(found.sampling, self.model, self.tokenizer), beams=None, answers=1)

    @property
    def chats(self) -> bool:
        """Whether a template writes chats for it."""
        return self.tokenizer is not None and bool(templates(self.tokenizer))

    @property
    def names(self) -> Mapping[str, str]:
        """What may be asked for, and the adapter that it stands for: none for the model itself."""
        return {self.name: "", **{f"{self.name}:{adapter}": adapter for adapter in self.adapters}}

    def adapter(self, name: str | None) -> str:
        """The adapter that the name of a model stands for; refuses a model that is not here."""
        names = self.names
        if name is not None and name not in names:
            raise ProtocolError(f"no model {name[:80]!r} is served here{did_you_mean(name[:80], names)}", 404, param="model")
        return "" if name is None else names[name]

    def named(self, name: str | None) -> Transformer:
        """The model of a name."""
        adapter = self.adapter(name)
        return self.adapters[adapter] if adapter else self.model

    def text(self) -> Tokenizer:
        """The tokenizer; refused where there is none."""
        if self.tokenizer is None:
            raise ProtocolError(
                f"{self.name} has no tokenizer, so text cannot become tokens: give token numbers", param="prompt"
            )
        return self.tokenizer

    def tokens_of(self, text: str) -> list[int]:
        """The tokens of a text, with what the tokenizer puts around it."""
        tokenizer = self.text()
        return tokenizer.framed(tokenizer.encode(text)).tokens

    def completion(self, body: CompletionBody) -> AskedTexts:
        """What a request at /v1/completions asks for."""
        check_model(self.model)
        if body.max_tokens == 0 and not body.echo:
            raise ProtocolError(
                "max_tokens = 0 makes no token: give at least 1, or echo = true to see the prompt", param="max_tokens"
            )
        if body.echo and body.logprobs is not None and self.model.architecture.two_inputs:
            raise ProtocolError("echo: a source has no log-probabilities: leave echo or logprobs out", param="echo")
        return self._asked(body, prompts_of(body.prompt, self), body.logprobs, body.max_tokens, ends_for(self.tokenizer, {}))

    def chat(self, body: ChatBody) -> AskedTexts:
        """What a request at /v1/chat/completions asks for."""
        check_model(self.model)
        check_chats(self.model)
        if body.max_tokens is not None and body.max_completion_tokens is not None:
            raise ProtocolError("max_tokens and max_completion_tokens are the same: leave one out", param="max_tokens")
        if body.max_tokens == 0:
            raise ProtocolError("max_tokens = 0 makes no token: give at least 1", param="max_tokens")
        if body.top_logprobs is not None and not body.logprobs:
            raise ProtocolError("top_logprobs stand beside log-probabilities: give logprobs = true", param="top_logprobs")
        tokenizer, (chat, files) = self.text(), chat_of(body)
        media = read_media(self.media, self.named(body.model), tokenizer, asked_tokens(tokenizer, chat), files)
        tokens = media.tokens
        replies = ReplySource(self.replies, tokenizer.decode(tokens, special=True), chat.tools or ())
        replies.reader()  # which refuses what cannot be read, before any work
        logprobs = (body.top_logprobs or 0) if body.logprobs else None
        most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        asked = self._asked(body, [tokens], logprobs, most, ends_for(self.tokenizer, {"chat": True}), replies)
        texts = tuple(replace(each, images=media.images, sounds=media.sounds) for each in asked.texts)
        return replace(asked, texts=texts)

    def _asked(
        self,
        body: ChoiceBody,
        prompts: Sequence[Sequence[int]],
        logprobs: int | None,
        most: int | None,
        ends: Sequence[int],
        replies: ReplySource | None = None,
    ) -> AskedTexts:
        if len(prompts) * body.n > MOST_TEXTS:
            raise ProtocolError(
                f"{len(prompts):,} prompts with {body.n} answers each are more than {MOST_TEXTS} texts: ask several times",
                param="n",
            )
        adapter, outputs = self.adapter(body.model), self.model.architecture.outputs
        seed = seed_of(body)
        sampling = sampling_of(body, self.usual, seed, outputs)
        logprobs = None if logprobs is None else min(logprobs, outputs)
        ends = tuple(dict.fromkeys((*(() if body.ignore_eos else ends), *(body.stop_token_ids or ()))))
        if (grammar := grammar_of(body, self.tokenizer, replies, outputs, ends)) is not None:
            sampling = sampling.with_parts(grammar)
        stop = (body.stop,) if isinstance(body.stop, str) else body.stop or ()
        stops = tuple(dict.fromkeys((*filter(None, stop), *self.usual.stop)))
        if stops:
            self.text()  # stop strings are text
        echo = isinstance(body, CompletionBody) and body.echo and logprobs is not None
        start = start_for(self.model, self.tokenizer, {})
        usual = self.usual if most is None else replace(self.usual, max_tokens=most)
        shown = () if replies is None else replies.form.shown(self.text())
        made = [max(1, usual.most(len(prompt) if start is None else 1)) if most != 0 else 1 for prompt in prompts]
        texts = tuple(
            ServedRequest(
                tuple(prompt), count, sampling, row, ends, stops, logprobs, echo,
                not body.skip_special_tokens, shown, start, adapter,
            )
            for prompt, count in zip(prompts, made, strict=True)
            for row in range(body.n)
        )  # fmt: skip
        return AskedTexts(texts, body.n, seed, body.seed is None and not sampling.greedy, body, most != 0, replies)


def prompts_of(given: Any, model: ServedModel) -> list[list[int]]:
    """The tokens of every prompt of a completion."""
    if given is None:
        raise ProtocolError(
            "prompt is required: a text, a list of them, token numbers, or a list of lists of these", param="prompt"
        )
    several = isinstance(given, list | tuple) and not (given and isinstance(given[0], int))
    prompts = list(given) if several else [given]
    if not prompts or len(prompts) > MOST_PROMPTS:
        raise ProtocolError(f"prompt: {len(prompts):,} prompts, and from 1 to {MOST_PROMPTS} are taken at once", param="prompt")
    return [_prompt(each, model) for each in prompts]


def _prompt(given: Any, model: ServedModel) -> list[int]:
    if isinstance(given, str):
        tokens = model.tokens_of(given)
        end = model.text().end_of_text
        return tokens or ([] if end is None else [end])
    if not isinstance(given, list | tuple) or not all(type(each) is int for each in given):
        raise ProtocolError(
            "prompt: should be a text, a list of them, token numbers, or a list of lists of these", param="prompt"
        )
    return list(given)
