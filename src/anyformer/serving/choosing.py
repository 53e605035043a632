"""How the tokens of a request are chosen: as the model's authors do it, but for what it says."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from anyformer.generation.decoding import Decoding
from anyformer.generation.processors import (
    FrequencyPenalty,
    MinNewTokens,
    PresencePenalty,
    Processor,
    RepetitionPenalty,
    SequenceBias,
)
from anyformer.generation.sampling import Sampling
from anyformer.serving.bodies import ChoiceBody
from anyformer.serving.protocol_error import ProtocolError

SEEDS = 2**31
"""Seeds that are drawn are below, which every client can hold."""


def seed_of(body: ChoiceBody) -> int:
    """The seed of a request, or one that is drawn; one below 0 is that far from 2^63."""
    return secrets.randbelow(SEEDS) if body.seed is None else body.seed % 2**63


def sampling_of(body: ChoiceBody, usual: Decoding, seed: int, vocabulary: int) -> Sampling:
    """The sampling of a request; `usual`: where nothing is said. A field stands for what the authors say of it."""
    changes: dict[str, Any] = {"seed": seed}
    draws = {"top_p": body.top_p, "min_p": body.min_p, "top_k": body.top_k}
    for name, value in draws.items():
        if value is not None:
            changes[name] = None if name == "top_k" and value < 1 else value
    if body.temperature is not None:
        changes["temperature"] = body.temperature
    elif usual.sampling.greedy and any(value is not None for value in draws.values()):
        changes["temperature"] = 1.0  # who shapes draws wants tokens drawn
    own = tuple(_parts(body, vocabulary))
    kept = [part for part in usual.sampling.processors if type(part) not in {type(each) for each in own}]
    return usual.sampling.but(**changes, processors=(*kept, *own))


def _parts(body: ChoiceBody, vocabulary: int) -> Iterator[Processor]:
    if body.frequency_penalty is not None:
        yield FrequencyPenalty(penalty=body.frequency_penalty)
    if body.presence_penalty is not None:
        yield PresencePenalty(penalty=body.presence_penalty)
    if body.repetition_penalty is not None:
        yield RepetitionPenalty(penalty=body.repetition_penalty)
    if body.min_tokens:
        yield MinNewTokens(tokens=body.min_tokens)
    if body.logit_bias:
        yield SequenceBias(runs=tuple(((_token(name, vocabulary),), value) for name, value in body.logit_bias.items()))


def _token(name: str, vocabulary: int) -> int:
    if not (name.isascii() and name.isdigit()) or len(name) > 9 or int(name) >= vocabulary:
        raise ProtocolError(
            f"logit_bias: {name[:40]!r} is no token: give numbers from 0 to {vocabulary - 1:,} as texts", param="logit_bias"
        )
    return int(name)
