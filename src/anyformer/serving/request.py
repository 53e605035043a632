"""`ServedRequest`: one text to go on with, whoever asked for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from anyformer.generation.sampling import GREEDY, Sampling
from anyformer.generation.sounds import SoundFrames
from anyformer.parts.images.encoder_module import Images


@dataclass(frozen=True)
class ServedRequest:
    """The tokens of a prompt, and how they are gone on with by at most `max_tokens`.

    `row`: the number of the text among the answers to its prompt, which keys its draws beside the seed of `sampling`. `ends`:
    tokens that end it; `stop`: texts before which it ends. `logprobs`: how many likeliest tokens are told of each; None tells
    nothing. `echo`: the log-probabilities of the prompt's own tokens are told too. `special`: special tokens are shown; else
    those of `shown` alone. `start`: the first token of a decoder that reads the prompt as its source. `adapter`: the name of
    that with which the model computes it, if there is one. `images`, `sounds`: those of a prompt that has tokens for them.
    """

    tokens: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = field(default=GREEDY)
    row: int = 0
    ends: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    echo: bool = False
    special: bool = False
    shown: tuple[int, ...] = ()
    start: int | None = None
    adapter: str = ""
    images: Images | None = None
    sounds: SoundFrames | None = None

    @property
    def positions(self) -> int:
        """Tokens of the text that the decode state holds at most."""
        return self.max_tokens + (len(self.tokens) if self.start is None else 1)

    @property
    def source(self) -> int:
        """Positions of the source."""
        return 0 if self.start is None else len(self.tokens)
