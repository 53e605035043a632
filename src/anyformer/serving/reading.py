"""A prompt that is read into a decode state of its own, one chunk after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from anyformer.generation.chances import Chances, chances
from anyformer.generation.decode import chunk_of, read_pieces, read_source
from anyformer.generation.images import on
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState
from anyformer.serving.prompt_prefixes import PromptPrefixes
from anyformer.serving.request import ServedRequest


class PromptReading:
    """`step` reads a chunk; `logits` (1, V) of the first token to come are there when all are read, None before.

    A prompt whose parts cannot be read in pieces, and a source, are one chunk. `told`: the log-probabilities of the prompt's
    tokens from the second on, as far as they were read, where the request asks for them. `read`: is called with the logits when
    all is read, and may keep the state. `prefixes`: of the same chunk, from which it may go on. `chunk`: tokens of a step at
    most, where it may be read in pieces; `count`: of the last one.
    """

    def __init__(
        self,
        model: Transformer,
        request: ServedRequest,
        state: StackState,
        read: Callable[[Tensor], None],
        *,
        chunk: int | None = None,
        prefixes: PromptPrefixes | None = None,
    ) -> None:
        self.request, self.told = request, list[Chances]()
        self.chunk, self.count = chunk_of(model, chunk), 0
        self.logits: Tensor | None = None
        self._model, self._state, self._read = model, state, read
        # The prompt's own log-probabilities take all of it, and tokens do not tell what images and sounds show.
        alone = request.echo or request.images is not None or request.sounds is not None
        self._prefixes = None if alone else prefixes
        self.tokens_BT = torch.tensor([request.tokens], dtype=torch.int64, device=model.device)
        self._pieces = self._text(chunk) if request.start is None else self._source(request.start)

    @torch.inference_mode()
    def step(self) -> None:
        """Read one chunk."""
        assert self.logits is None, "something is left"
        self.logits = next(self._pieces)
        if self.logits is not None:
            self._read(self.logits)

    def _text(self, chunk: int | None) -> Iterator[Tensor | None]:
        model, tokens = self._model, self.request.tokens
        count = 0 if self._prefixes is None else self._prefixes.begin(tokens, self._state)
        images, sounds = self.request.images, self.request.sounds
        images = None if images is None else on(model.device, images)
        sounds = None if sounds is None else sounds.on(model.device)
        for features in read_pieces(model, self.tokens_BT, None, self._state, images, chunk, sounds, first=count):
            self.count = features.shape[1]
            count += self.count
            if self._prefixes is not None:
                self._prefixes.keep(tokens[:count], self._state)
            if self.request.echo:
                self._tell(model.logits(features)[0], count)
            # As in `prefill`: the product of one row.
            yield model.logits(features[:, -1]) if count == self.tokens_BT.shape[1] else None

    def _source(self, start: int) -> Iterator[Tensor]:
        first = torch.full((1, 1), start, device=self.tokens_BT.device)
        self.count = self.tokens_BT.shape[1]
        yield read_source(self._model, self.tokens_BT, None, first, None, self._state)

    def _tell(self, logits_TV: Tensor, count: int) -> None:
        """The chances of the tokens behind those whose logits these are; `count`: tokens that were read."""
        following = self.tokens_BT[0, count - len(logits_TV) + 1 : count + 1]
        told = chances(logits_TV[: len(following)], following, self.request.logprobs or 0)
        self.told += [each for each in told if each is not None]
