"""Speculative decoding: steps in which an answer gets several tokens at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anyformer.describe import UserError
from anyformer.planning.queues.requests import ArrivingRequests


@dataclass(frozen=True)
class Drafts:
    """A step proposes `count` tokens, each of which is accepted with chance `accepted` if those before it are.

    A step gives (1 - a^(g + 1)) / (1 - a) tokens on average (Leviathan et al. 2023, arXiv 2211.17192, equation 1), and reads
    g + 1 positions of every text. `share`: seconds of proposing a token, as a share of a step's (the c of the same paper).
    """

    count: int
    accepted: float
    share: float = 0.0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"{self.count} tokens are proposed: give 1 or more")
        if not 0 <= self.accepted <= 1:
            raise UserError(f"a proposed token is accepted with a chance of {self.accepted:g}: give 0 to 1")
        if not 0 <= self.share < 1:
            raise UserError(f"to propose a token takes {self.share:g} of a step: give 0 to below 1")

    @property
    def mean(self) -> float:
        """Tokens of a step on average."""
        return sum(self.accepted**i for i in range(self.count + 1))

    def of(self, requests: ArrivingRequests, seed: int = 0) -> ArrivingRequests:
        """The requests with the number of steps that each takes, drawn step by step."""
        generator = np.random.default_rng(np.random.SeedSequence(seed).spawn(5)[4])
        left = requests.output - 1
        steps = np.zeros_like(left)
        while (at := np.flatnonzero(left > 0)).size:
            steps[at] += 1
            left[at] -= 1 + self._taken(generator, at.size)
        return replace(requests, steps=steps)

    def _taken(self, generator: np.random.Generator, count: int) -> NDArray[np.int64]:
        """(count,) proposed tokens that are accepted."""
        accepted = generator.random((count, self.count)) < self.accepted
        taken: NDArray[np.int64] = np.cumprod(accepted, axis=1).sum(axis=1)
        return taken
