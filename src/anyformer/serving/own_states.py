"""Every text in a decode state of its own: its logits have the same bits whatever else the server does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anyformer.generation.decode import decode
from anyformer.generation.rereading import ReadInputs, Rereading
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState
from anyformer.serving.prompt_prefixes import PromptPrefixes
from anyformer.serving.reading import PromptReading
from anyformer.serving.request import ServedRequest
from anyformer.serving.states import NeverFitsError, checked, request_bytes


@dataclass
class OwnText:
    """A text's state, its bytes, and what steps it once it is read."""

    state: StackState
    bytes: int
    again: Rereading
    read: bool = False


@dataclass
class OwnStates:
    """States of exactly as many positions as each text may need, `total` bytes together. `chunk`: see `read_pieces`."""

    model: Transformer
    total: int
    chunk: int | None = None
    prefixes: PromptPrefixes | None = None
    foretold: int = 0
    _texts: dict[int, OwnText] = field(default_factory=dict)
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def places(self) -> None:
        return None

    @property
    def held(self) -> int:
        return sum(text.state.nbytes for text in self._texts.values())

    def check(self, request: ServedRequest) -> None:
        needed = self._needs(checked(self.model, request))
        if needed > self.total:
            raise NeverFitsError(
                f"{len(request.tokens):,} tokens of prompt and {request.max_tokens:,} of text take {needed:,} bytes of decode "
                f"state, and the server has {self.total:,}: ask for fewer, or start it with more --memory"
            )

    def fits(self, request: ServedRequest) -> bool:
        return self.fits_beside(request, 0)

    def fits_beside(self, request: ServedRequest, others: int) -> bool:
        """Whether there is room beside bytes that others take."""
        return self.foretold + others + self._needs(request) <= self.total

    @torch.inference_mode()
    def enter(self, number: int, request: ServedRequest) -> PromptReading:
        needed = self._needs(request)
        state = self.model.state(1, request.positions, source=request.source)
        text = OwnText(state, needed, Rereading(self.model, decode))
        self._texts[number] = text
        self.foretold += needed

        def read(_: Tensor) -> None:
            tokens_BT, inputs = reading.tokens_BT, ReadInputs(images=request.images, sounds=request.sounds)
            if request.start is not None:
                inputs = ReadInputs(tokens_BT, request.source)
                tokens_BT = torch.full((1, 1), request.start, device=tokens_BT.device)
            text.again.begin(tokens_BT, None, text.state, inputs)
            text.read = True

        reading = PromptReading(self.model, request, text.state, read, chunk=self.chunk, prefixes=self.prefixes)
        return reading

    @torch.inference_mode()
    def advance(self, tokens: Mapping[int, int]) -> dict[int, Tensor]:
        found = {}
        for number, token in tokens.items():
            text = self._texts[number]
            assert text.read, "its prompt was read"
            text.state.slots.reserve(1)
            found[number] = text.again(self.model, torch.tensor([token], device=self.model.device), text.state)
        return found

    def leave(self, number: int) -> None:
        self.foretold -= self._texts.pop(number).bytes

    def _needs(self, request: ServedRequest) -> int:
        """Bytes of its state, worked out once for texts of one size: a request that waits is asked for them at every step."""
        size = request.positions, request.source
        if size not in self._known:
            self._known[size] = request_bytes(self.model, request)
        return self._known[size]
