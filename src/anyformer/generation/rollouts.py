"""Rollouts: answers that a model samples of prompts, with log p of the distribution that every token was drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyformer.describe import Count, Positive, Value
from anyformer.generation.decode import going_on
from anyformer.generation.sampled import as_bits, sampled_log_p, sampled_scores
from anyformer.generation.sampling import GREEDY, Sampling
from anyformer.model import Architecture
from anyformer.model.choosing import Noted, choice_layout, choices_noted
from anyformer.model.transformer import Transformer
from anyformer.operations import Contract, Shape
from anyformer.parts.call.choices import NO_CHOICE, ChoiceLayout

NEEDED: tuple[Contract, ...] = ("stepwise", "cached", "padded")
"""What makes the forward pass of sampling, token by token behind padded prompts, that of training."""


class Rollouts(Value):
    """How answers are sampled from the model in training: p(v) = softmax(z / temperature)_v over the tokens that are kept.

    log p that an update reads is of this distribution: the kept tokens are noted and used again (DeepSeek-V3.2, arXiv
    2512.02556, section 3.1, keeps the sampling mask for the same reason).
    """

    tokens: Count | None = None
    """Tokens of an answer at most. Absent: as many as fit behind its prompt into T positions."""
    temperature: Positive = 1.0
    """Divides the logits."""
    top_k: Count | None = None
    """Keep the k likeliest tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Keep the likeliest tokens until their probabilities reach p."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Keep tokens at least min_p times as likely as the likeliest."""
    at_once: Count = 256
    """Answers that are sampled together: more are faster, and need more memory."""
    replay: bool = True
    """Whether an update sends every token to the experts that it went to when it was sampled or read (rollout routing replay,
    Ma et al. 2025, arXiv 2510.11370), so that no rounding changes them. The weights of experts are those of the update."""

    @property
    def cuts(self) -> bool:
        """Whether some tokens cannot be drawn."""
        return any(part.name != "temperature" for part in self.sampling(0).parts)

    def sampling(self, seed: int | tuple[int, ...]) -> Sampling:
        """The choice of tokens with this seed, or one per row."""
        return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p, seed=seed)


@dataclass(frozen=True)
class SampledAnswers:
    """Answers to prompts, `group` rows one behind the other for each: R rows of at most N tokens.

    `tokens` (R, N) int64, -1 behind an answer's last; `log_p` (R, N) fp32, of the distribution that was sampled from, 0 there;
    `kept` (R, N, V / 8) uint8, the tokens that could be drawn (`sampled.as_bits`), None where all could; `ended` (R,) bool:
    whether an answer ended by itself, and was not cut.
    """

    tokens: Tensor
    log_p: Tensor
    kept: Tensor | None
    ended: Tensor
    chosen: Tensor | None = None
    """(R, M, S) int16: the experts that layers chose for every position of a row, its prompt's first, `NO_CHOICE` behind the
    last that was read; None where they are not noted."""

    @staticmethod
    def joined(parts: Sequence[SampledAnswers]) -> SampledAnswers:
        """The answers of all parts."""
        if len(parts) == 1:
            return parts[0]

        def one(tensors: Sequence[Tensor], fill: int) -> Tensor:
            rows = [row for tensor in tensors for row in tensor]
            return pad_sequence(rows, batch_first=True, padding_value=fill)

        kept = [part.kept for part in parts if part.kept is not None]
        chosen = [part.chosen for part in parts if part.chosen is not None]
        return SampledAnswers(
            one([part.tokens for part in parts], -1), one([part.log_p for part in parts], 0),
            one(kept, ALL) if kept else None, torch.cat([part.ended for part in parts]),
            one(chosen, NO_CHOICE) if chosen else None,
        )  # fmt: skip


ALL = 0xFF
"""Bits of eight tokens that can all be drawn."""


def check_rollouts(architecture: Architecture) -> None:
    """Refuse an architecture whose tokens, sampled one by one, have other probabilities than a forward pass over all gives."""
    tally = architecture.folded_cost(Shape())
    reasons = [reason for contract in NEEDED for reason in tally.breaks(contract)]
    if reasons:
        raise ValueError(
            f"sampled token by token, this architecture gives other probabilities than in a forward pass over all: {reasons[0]}"
        )


@torch.no_grad()
def sampled(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    rollouts: Rollouts,
    seeds: Sequence[int],
    most: Sequence[int],
    ends: Sequence[int] = (),
    group: int = 1,
    greedy: bool = False,
) -> SampledAnswers:
    """Answers to prompts, `group` of each: of row r by the seed number r, of at most as many tokens as `most` of its prompt.

    An answer ends with one of `ends`, which is its last token. `greedy`: the likeliest tokens in place of drawn ones.
    """
    assert len(seeds) == len(prompts) * group, "a seed for every answer"
    size = max(1, rollouts.at_once // group)
    layout = choice_layout(model) if rollouts.replay and not greedy else ChoiceLayout()
    parts = list[SampledAnswers]()
    for at in range(0, len(prompts), size):
        own, asked = tuple(seeds[at * group : (at + size) * group]), prompts[at : at + size]
        choice = GREEDY if greedy else rollouts.sampling(own)
        with choices_noted(model, wanted=layout.size > 0) as noted:
            found = _together(model, asked, choice, rollouts, most[at : at + size], ends, group)
        parts.append(replace(found, chosen=_chosen(noted, layout, asked, group)) if noted else found)
    return SampledAnswers.joined(parts)


def _chosen(noted: Noted, layout: ChoiceLayout, prompts: Sequence[Sequence[int]], group: int) -> Tensor:
    """(R, M, S): what was noted of prompts, padded on the left and read piece by piece, and of the tokens after them."""
    widest, calls, read = max(map(len, prompts)), list[Tensor](), 0
    for call in range(len(next(iter(noted.values())))):
        of_call = layout.joined(noted, call)
        calls.append(of_call.repeat_interleave(group, 0) if read < widest else of_call)
        read += of_call.shape[1]
    whole = torch.cat(calls, 1)
    padded = torch.tensor([widest - len(prompt) for prompt in prompts], device=whole.device).repeat_interleave(group)
    at = torch.arange(whole.shape[1], device=whole.device) + padded[:, None]
    moved = whole.gather(1, at.clamp(max=whole.shape[1] - 1)[..., None].expand_as(whole))
    return moved.masked_fill((at >= whole.shape[1])[..., None], NO_CHOICE)


def _together(
    model: Transformer, prompts: Sequence[Sequence[int]], choice: Sampling, rollouts: Rollouts, most: Sequence[int],
    ends: Sequence[int], group: int,
) -> SampledAnswers:  # fmt: skip
    shape, cuts = rollouts.sampling(0), rollouts.cuts
    steps = list[tuple[Tensor, Tensor, Tensor | None]]()
    for next_B, logits in going_on(model, prompts, sampling=choice, max_tokens=max(most), ends=ends, answers=group):
        kept = shape.scores(logits, index=len(steps)).isfinite() if cuts else None
        log_p = sampled_log_p(sampled_scores(logits, rollouts.temperature, kept), next_B)
        steps.append((next_B, log_p, None if kept is None else as_bits(kept)))
    tokens, log_p = (torch.stack([step[number] for step in steps], 1) for number in (0, 1))  # type: ignore[misc]
    bits = [step[2] for step in steps if step[2] is not None]
    stops = torch.isin(tokens, torch.tensor(list(ends), device=tokens.device))
    room = torch.tensor(most, device=tokens.device).repeat_interleave(group)[:, None]
    there = ((stops.cumsum(1) - stops.long()) == 0) & (torch.arange(tokens.shape[1], device=tokens.device) < room)
    kept = torch.stack(bits, 1).masked_fill(~there[..., None], ALL) if bits else None
    return SampledAnswers(tokens.masked_fill(~there, -1), torch.where(there, log_p, 0.0), kept, (stops & there).any(1))
