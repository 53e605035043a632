"""`PromptPrefixes`: decode states behind the first chunks of prompts, from which later prompts that begin so go on.

A prompt is read in the same chunks from its first token on, so the state behind some of them depends on their tokens alone. To
go on from a copy gives every bit that reading them again would give, whatever kind the state is, recurrent ones too.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import torch

from anyformer.generation.decode import reads_whole
from anyformer.model.prefix import reads_prefix
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState


@dataclass
class PromptPrefixes:
    """At most `total` bytes of states behind whole chunks of `chunk` tokens; those that were used longest ago go first. A state
    goes on in those that are as large or larger.

    `held`: bytes now; `reused`: tokens that were not read again. Nothing is kept of a model that reads prompts whole, or their
    beginnings both ways.
    """

    model: Transformer
    chunk: int
    total: int
    held: int = 0
    reused: int = 0
    _states: OrderedDict[bytes, StackState] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        architecture = self.model.architecture
        if architecture.two_inputs or reads_prefix(architecture) or reads_whole(self.model):
            self.total = 0

    def begin(self, tokens: Sequence[int], state: StackState) -> int:
        """Let an empty state hold the longest known beginning of a prompt, whose last token is left to read; its length."""
        most = state.slots.capacity
        found = [each for each in self._keys(tokens[:-1]) if self._capacity(each[1], most + 1) <= most]
        if not found:
            return 0
        count, key = found[-1]
        self._states.move_to_end(key)
        state.take(self._states[key])
        self.reused += count
        return count

    def keep(self, tokens: Sequence[int], state: StackState) -> None:
        """Keep a copy of the state behind whole chunks of tokens, if there is room."""
        if len(tokens) % self.chunk or not 0 < state.nbytes <= self.total:
            return
        *_, (_, key) = self._keys(tokens)
        capacity = state.slots.capacity
        if self._capacity(key, capacity + 1) <= capacity:
            return
        if key in self._states:
            self.held -= self._states.pop(key).nbytes  # a smaller one serves more prompts
        while self.held + state.nbytes > self.total:
            _, oldest = self._states.popitem(last=False)
            self.held -= oldest.nbytes
        self._states[key] = state.fork(torch.zeros(1, dtype=torch.int64, device=self.model.device))
        self.held += self._states[key].nbytes

    def _capacity(self, key: bytes, otherwise: int) -> int:
        """The slots of a state that is kept."""
        return self._states[key].slots.capacity if key in self._states else otherwise

    def _keys(self, tokens: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """(tokens, the digest of all of them) behind every whole chunk."""
        if not self.total:
            return
        digest = sha256()
        for count in range(self.chunk, len(tokens) + 1, self.chunk):
            digest.update(array("q", tokens[count - self.chunk : count]).tobytes())
            yield count, digest.digest()
