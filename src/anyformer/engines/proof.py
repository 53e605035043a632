"""Whether an engine computes what the own one does: rows of tokens through both, read as prompts and then token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from anyformer.engines.engine import EngineRefusedError
from anyformer.generation.places import PlaceMaker
from anyformer.generation.state_rows import state_rows
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, bits

LENGTHS = (1, 9, 40, 600)
"""Tokens of the prompts: one, few, and more than an engine computes at once."""
STEPS = 24
"""Tokens that follow each of them."""
BEYOND = 40
"""Tokens of the longest prompt behind the length from which a model reads otherwise, as by a window."""
WORK = 10**12
"""Parameters times positions of a prompt that are spent on such a length."""
EXACT = 1e-4
"""The largest difference of two logits in fp32, over the largest logit: what another order of additions makes."""
ROUNDED = 0.05
"""The same where an engine rounds otherwise, as with weights of 16 bits or fewer."""


@dataclass(frozen=True)
class Proof:
    """`largest` difference of logits over the largest logit of its row; `alike` of `tokens` are the likeliest of both.

    `versions`: what it holds of, as `kept` compares it.
    """

    largest: float
    tokens: int
    alike: int
    rows: int
    versions: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether texts of both are the same."""
        return self.largest <= EXACT and self.alike == self.tokens

    @property
    def rounded(self) -> bool:
        """Whether they are equal but for rounding."""
        return self.largest <= ROUNDED

    def __str__(self) -> str:
        if self.exact:
            return f"proved on {self.rows} rows, largest difference {self.largest:.0e}"
        return f"{self.alike} of {self.tokens} tokens alike on {self.rows} rows, largest difference {self.largest:.0e}"

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"versions": list(self.versions)}

    @staticmethod
    def kept(data: Any, versions: Sequence[str]) -> Proof | None:
        """The proof that plain data is, if it holds of these versions."""
        try:
            found = Proof(**{**data, "versions": tuple(data["versions"])})
        except (KeyError, TypeError):
            return None
        return found if found.versions == tuple(versions) else None


@torch.inference_mode()
def prove(model: Transformer, places: PlaceMaker, versions: Sequence[str]) -> Proof:
    """Read the probes with both, and let both go on with the tokens that the own one finds likeliest."""
    prompts = probes(model)
    own, other = state_rows(model, prompts, len(prompts), STEPS), places(prompts, len(prompts), STEPS)
    everywhere = list(range(len(prompts)))
    if own.count < len(prompts):
        raise EngineRefusedError("rows side by side change one another in this architecture")
    mine, theirs = own.enter(everywhere, everywhere).float(), other.enter(everywhere, everywhere)
    largest, alike = 0.0, 0
    for step in range(STEPS):
        if mine.shape != theirs.shape:
            raise EngineRefusedError(f"it gives {theirs.shape[-1]:,} logits, and the model has {mine.shape[-1]:,}")
        gaps = (mine - theirs).abs().amax(-1) / mine.abs().amax(-1)
        # NaN is no small difference.
        largest = max(largest, float(gaps.nan_to_num(float("inf")).max()))
        chosen = mine.argmax(-1)
        alike += int((theirs.argmax(-1) == chosen).sum())
        if step + 1 < STEPS:
            tokens = chosen.tolist()
            mine, theirs = own.advance(tokens).float(), other.advance(tokens)
    return Proof(largest, STEPS * len(prompts), alike, len(prompts), tuple(versions))


def probes(model: Transformer) -> list[list[int]]:
    """The prompts, made of the model's sizes alone.

    Raises `EngineRefusedError` where a length from which the model reads otherwise is too long to be tried.
    """
    architecture = model.architecture
    vocab, most = architecture.embedding.symbols, architecture.output_stack.max_length
    assert vocab is not None, "it reads tokens"
    lengths = [length for length in LENGTHS if most is None or length + STEPS <= most]
    active = max(1, architecture.folded_cost(Shape()).active_parameters)
    room = most or WORK
    reach = [length for length in changes(model, room) if length + STEPS < room]
    if reach and active * (max(reach) + BEYOND) > WORK:
        raise EngineRefusedError(f"what it does with texts beyond {max(reach):,} tokens would take long to prove")
    lengths += [min(length + BEYOND, room - STEPS) for length in reach if length + STEPS > max(lengths, default=0)]
    noise = Noise.at(0, 0, torch.arange(len(lengths)))
    tokens = bits(noise, 0, torch.Size((len(lengths), max(lengths)))) % vocab
    return [row[:length] for row, length in zip(tokens.tolist(), lengths, strict=True)]


def changes(model: Transformer, most: int) -> list[int]:
    """Lengths of up to `most` tokens from which the model reads otherwise: where a memory is full, or texts are read again."""
    architecture = model.architecture

    def growth(length: int) -> int:
        """Bytes of decode state that one more position takes."""
        larger, smaller = (architecture.folded_cost(Shape(length=1, capacity=each)) for each in (length + 1, length))
        return larger.total_state_bytes - smaller.total_state_bytes

    found = set(architecture.folded_cost(Shape()).read_again_beyond)
    first, low = growth(1), 1
    longest = min(most, 2**20)
    while growth(longest) < growth(low) <= first:  # every length at which it grows less than before
        inside, beyond = low, longest
        while beyond - inside > 1:
            middle = (inside + beyond) // 2
            inside, beyond = (middle, beyond) if growth(middle) == growth(low) else (inside, middle)
        found.add(beyond)
        low = beyond
    return sorted(length for length in found if length <= most)
