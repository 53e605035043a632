"""Prompts cut from rows that hold their answers, and rows of prompts with the answers that a model sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.generation.rollouts import ALL, SampledAnswers
from anyformer.objectives.examples import Examples
from anyformer.parts.call.choices import NO_CHOICE


class AskedPrompt(NamedTuple):
    """A sample's tokens before its answer, the answer that the data give, and the number of the sample."""

    tokens: list[int]
    answer: list[int]
    sample: int


def prompts_of(examples: Examples) -> list[AskedPrompt]:
    """The prompt of every row with a target: all before its last run of targets, which is its answer."""
    found = list[AskedPrompt]()
    rows = zip(examples.tokens.tolist(), examples.targets.tolist(), examples.rows.tolist(), strict=True)
    for tokens, targets, sample in rows:
        asked = [place for place, target in enumerate(targets) if target != IGNORED]
        if asked:
            first = last = asked[-1]
            while first and targets[first - 1] != IGNORED:
                first -= 1
            found.append(AskedPrompt(tokens[: first + 1], targets[first : last + 1], sample))
    return found


def rows_of(prompts: Sequence[AskedPrompt], found: SampledAnswers, group: int, length: int, *, prefix: bool) -> Examples:
    """Rows of T = `length` positions, `group` to a prompt: it and an answer, whose tokens are the targets.

    `prefix`: whether the architecture reads prompts both ways.
    """
    R, N = found.tokens.shape
    device = found.tokens.device
    starts = torch.tensor([len(prompt.tokens) for prompt in prompts], device=device).repeat_interleave(group)
    made = found.tokens >= 0
    # Answer token i of a row is read at position start + i, and predicted at the position before.
    at = (starts[:, None] - 1 + torch.arange(N, device=device)).clamp(max=length - 1)
    targets = torch.full((R, length), IGNORED, dtype=torch.int64, device=device)
    tokens, sampled = torch.zeros_like(targets), torch.zeros(R, length, device=device)
    row = torch.arange(R, device=device)[:, None].expand(-1, N)
    targets[row[made], at[made]] = found.tokens[made]
    sampled[row[made], at[made]] = found.log_p[made]
    read = made & (at + 1 < length)
    tokens[row[read], at[read] + 1] = found.tokens[read]
    for number, prompt in enumerate(prompts):
        tokens[number * group : (number + 1) * group, : len(prompt.tokens)] = torch.tensor(prompt.tokens, device=device)
    last = starts + made.sum(1) - 1
    padding = torch.arange(length, device=device) >= last[:, None]
    kept = None
    if found.kept is not None:
        kept = torch.full((R, length, found.kept.shape[-1]), ALL, dtype=torch.uint8, device=device)
        kept[row[made], at[made]] = found.kept[made]
    chosen = None
    if found.chosen is not None:
        chosen = torch.full((R, length, found.chosen.shape[-1]), NO_CHOICE, dtype=found.chosen.dtype, device=device)
        noted = found.chosen[:, :length]
        chosen[:, : noted.shape[1]] = noted
    samples = torch.tensor([prompt.sample for prompt in prompts], device=device)
    return Examples(
        tokens,
        targets,
        None,
        samples,
        padding=padding,
        prefix=starts if prefix else None,
        sampled=sampled,
        kept=kept,
        chosen=chosen,
    )


def answer_of(row: Tensor) -> list[int]:
    """The tokens of an answer, of a row of `SampledAnswers.tokens`."""
    found: list[int] = row[row >= 0].tolist()
    return found
