"""`ServedText`: a text that the server goes on with, from its prompt to its end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.generation.chances import Chances, Token, chances
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.rows import Reason, TextRow
from anyformer.serving.request import ServedRequest
from anyformer.text import Tokenizer


@dataclass(frozen=True)
class TextEvent:
    """What came of a text. `token`: with its log-probabilities where they were asked for, None where only an end is told;
    `piece`: the text that it makes certain; `reason`: why the text ended, if it did; `error`: what went wrong instead,
    with HTTP's number for it as `status`;
    `prompt`: with the first token, the log-probabilities of the prompt, where they were asked for.
    """

    number: int
    token: Token | None = None
    piece: str = ""
    reason: Reason | None = None
    error: str | None = None
    status: int = 400
    prompt: tuple[Chances, ...] = ()

    @property
    def last(self) -> bool:
        return self.reason is not None or self.error is not None


class ServedText:
    """The text of one request: each of its tokens is chosen as `generate` chooses it of that prompt alone."""

    def __init__(self, number: int, request: ServedRequest, tokenizer: Tokenizer | None, device: torch.device) -> None:
        self.number, self.request = number, request
        self._row = TextRow(
            tokenizer, request.stop, request.ends, most=request.max_tokens, prompt=self._before, special=request.special,
            shown=request.shown,
        )  # fmt: skip
        self._texts = (
            Prefixes.begun([request.tokens], request.start, device, ends=request.ends, most=request.max_tokens)
            if request.sampling.reads
            else None
        )
        self._rows_B = torch.tensor([request.row], device=device)

    @property
    def _before(self) -> tuple[int, ...]:
        """The tokens in front of those that are made."""
        return self.request.tokens if self.request.start is None else (self.request.start,)

    @property
    def ended(self) -> bool:
        return self._row.ended

    @property
    def last_token(self) -> int:
        """The token to read next."""
        return self._row.tokens[-1]

    def choose(self, logits_1V: Tensor, prompt: tuple[Chances, ...] = ()) -> TextEvent:
        """The next token. Raises `NoChoiceError`."""
        index = len(self._row.tokens)
        (token,) = self.request.sampling.choose_numbers(logits_1V, self._rows_B, index, self._texts)
        (told,) = chances(logits_1V, torch.tensor([token], device=logits_1V.device), self.request.logprobs)
        given = Token(self.number, token, told)
        piece = self._row.push(given)
        if self._texts is not None:
            self._texts.add(torch.tensor([token], device=logits_1V.device))
        return TextEvent(self.number, given, piece, self._row.reason, prompt=prompt)

    def stop(self) -> TextEvent:
        """The rest of a text for which no time is left."""
        return TextEvent(self.number, piece=self._row.finish("time"), reason=self._row.reason)
