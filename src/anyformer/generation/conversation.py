"""`Conversation`: a chat with a model over several turns, whose decode state is kept between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Unpack

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.chances import Token
from anyformer.generation.checks import check, check_chats
from anyformer.generation.decode import reads_whole
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.reader import TextReader
from anyformer.generation.rows import TextRow
from anyformer.generation.settings import GenerationSettings, decoding_for, ends_for, within
from anyformer.generation.steps import stepper
from anyformer.model.prefix import reads_prefix
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer
from anyformer.text.chat import Chat, Turns, prompt_tokens
from anyformer.text.chat.conversation import ANSWERING, Message

_PIECE = 256
"""Tokens of a turn that are read at once."""
_MOST = 2**31
"""Positions of a text at most, where no table of positions ends before."""
_ALONE = ("draft", "logprobs", "images", "batch", "block", "done")
"""Settings that have no meaning for one text that goes on."""


class Conversation:
    """What was said, and a model that answers.

    Each answer is what `generate` would give for the turns so far. Only tokens behind those that the model has read already are
    read: where a template writes earlier turns otherwise, as without their reasoning, those from the first difference on.
    """

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, begun: Chat | Turns = (), **settings: Unpack[GenerationSettings]
    ) -> None:
        check_chats(model)
        self.decoding = decoding_for(tokenizer, settings)
        unfit = [name for name, value in settings.items() if name in _ALONE and value is not None]
        unfit += ["beams"] * (self.decoding.beams is not None) + ["answers"] * (self.decoding.answers > 1)
        if unfit:
            raise InputError(f"a conversation is one text that goes on: leave {' and '.join(unfit)} out")
        self.model, self.tokenizer, self.chat = model, tokenizer, Chat.of(begun)
        settings["chat"] = True
        self.ends = ends_for(tokenizer, settings, self.chat.template)
        self.special = settings.get("special", False)
        self.sampling = within(self.decoding.sampling, model, tokenizer)
        self._step = stepper(self.decoding.most(1), settings.get("compile"))
        self._turns = 0
        self._kept = not (reads_whole(model) or reads_prefix(model.architecture))
        """Whether tokens may be read behind others as well as with them."""
        self._reader: TextReader | None = None
        self._marked = 0

    @property
    def messages(self) -> list[Message]:
        """What was said."""
        return list(self.chat.messages)

    def say(self, text: str) -> Iterator[str]:
        """The answer to what a user says, piece by piece; then both belong to what was said."""
        return self._answered(self.chat.but([*self.chat.messages, {"role": "user", "content": text}]))

    def answer(self) -> Iterator[str]:
        """The answer to what was said, piece by piece; then it belongs to it, as far as it was read."""
        return self._answered(self.chat)

    def _answered(self, asked: Chat) -> Iterator[str]:
        tokens = prompt_tokens(self.tokenizer, asked)
        most = self.decoding.most(len(tokens))
        check(self.model, [tokens], most, None)
        self.chat = asked
        return self._said(tokens, most)

    def _said(self, tokens: Sequence[int], most: int) -> Iterator[str]:
        said, asked = "", self.chat
        try:
            for piece in self._answer(tokens, most):
                said += piece
                yield piece
        finally:
            self.chat = asked.but([*asked.messages, {"role": ANSWERING, "content": said}])

    @torch.inference_mode()
    def _answer(self, tokens: Sequence[int], most: int) -> Iterator[str]:
        row = TextRow(self.tokenizer, self.decoding.stop, self.ends, most=most, prompt=tokens, special=self.special)
        texts = Prefixes.begun([tokens], None, self.model.device, ends=self.ends, most=most) if self.sampling.reads else None
        over = self.decoding.over() or (lambda: False)
        # Each turn has draws of its own, the first those of a text alone.
        rows = torch.tensor([self._turns], device=self.model.device)
        self._turns += 1
        logits, reader = self._read(tokens, most)
        for index in range(most):
            chosen = self.sampling.choose(logits, rows, index, texts)
            piece = row.push(Token(0, int(chosen)))
            if over():
                piece += row.finish("time")
            if piece:
                yield piece
            if row.ended:
                return
            if texts is not None:
                texts.add(chosen)
            logits = reader.read([int(chosen)])

    def _read(self, tokens: Sequence[int], most: int) -> tuple[Tensor, TextReader]:
        """The logits behind a prompt, and the reader that holds it."""
        reader, logits = self._reader, None
        held = [] if reader is None else reader.tokens
        pairs = zip(held, tokens[:-1], strict=False)
        same = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(held), len(tokens) - 1))
        if reader is None or not self._kept or same < self._marked:
            longest = self.model.architecture.output_stack.max_length
            reader = TextReader(self.model, longest or _MOST, *self._step)
            logits = reader.begin(tokens, None)
        else:
            reader.back(same)
            for first in range(same, len(tokens), _PIECE):
                logits = reader.read(list(tokens[first : first + _PIECE]))[-1:]
        assert logits is not None, "a prompt has tokens"
        # What an answer adds may be forgotten, since a template may write it otherwise once it is over.
        self._reader, self._marked = reader, len(tokens)
        reader.mark(most)
        return logits, reader
