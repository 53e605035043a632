"""Attention patterns, and which heads look for what: the token before, the same token, what followed it, the first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from anyformer.describe import InputError, did_you_mean
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.sweep import kept_values
from anyformer.inspecting.tables import table_of
from anyformer.model.transformer import Transformer
from anyformer.tasks.draws import Draws

if TYPE_CHECKING:
    from rich.table import Table

LONGEST, ROWS = 50, 16
"""Positions of random tokens at most, of which the second half is the first again, and rows of them."""
WEIGHTS = ".weights"
KINDS = ("previous", "duplicate", "induction", "first", "own")


@dataclass(frozen=True)
class HeadPattern:
    """Mean attention weight that a head gives what it may look for; `path`: its attention.

    `previous`: to the token before. `duplicate`: to earlier tokens that are the same. `induction`: to tokens behind an earlier
    one that is the same, what followed last time (Olsson et al. 2022, arXiv 2209.11895). `first`: to the first position, where
    heads rest. `own`: to the position itself. Queries that have nothing to look for are left out of a mean.
    """

    path: str
    head: int
    previous: float
    duplicate: float
    induction: float
    first: float
    own: float


def looked_for(tokens_BT: Tensor) -> Mapping[str, Tensor]:
    """The positions that a head of each of `KINDS` looks for: (B, T, S) bool, keys S = T."""
    B, T = tokens_BT.shape
    place = torch.arange(T, device=tokens_BT.device)
    earlier_TS = place[:, None] > place
    same_BTS = (tokens_BT[:, :, None] == tokens_BT[:, None]) & earlier_TS
    behind_BTS = torch.zeros_like(same_BTS)
    behind_BTS[..., 1:] = same_BTS[..., :-1]
    alike = {
        "previous": place[:, None] == place + 1,
        "first": (place == 0) & (place[:, None] > 0),
        "own": place[:, None] == place,
    }
    of_all = {kind: each_TS.expand(B, T, T) for kind, each_TS in alike.items()}
    return {**of_all, "duplicate": same_BTS, "induction": behind_BTS}


def pattern_scores(weights_BHTS: Tensor, tokens_BT: Tensor) -> Mapping[str, Tensor]:
    """The mean weight per head on what is `looked_for`, (H,) for each of `KINDS`; 0 where nothing is to be found."""
    found = {}
    for kind, wanted_BTS in looked_for(tokens_BT).items():
        given_BHT = (weights_BHTS.float() * wanted_BTS[:, None]).sum(-1)
        asking_BT = wanted_BTS.any(-1)
        found[kind] = (given_BHT * asking_BT[:, None]).sum((0, 2)) / asking_BT.sum().clamp(min=1)
    return {kind: found[kind] for kind in KINDS}


def attention_paths(model: Transformer) -> tuple[str, ...]:
    """The paths of the attention weights (B, H, T, S) of a model, of all its stacks; refused where it has none."""
    called = tuple(f"{stack}." for stack in model.architecture.stacks)
    found = tuple(
        path
        for path, each in model.watchable().items()
        if each.letters == "BHTS" and path.endswith(WEIGHTS) and path.startswith(called)
    )
    if not found:
        raise InputError(
            "this model has no attention with weights (B, H, T, S), so it has no pattern: look at other paths by model.watch"
        )
    return found


def attention_patterns(model: Transformer, given: Tensor | CallInputs) -> Mapping[str, Tensor]:
    """The attention weights (B, H, T, S) of every attention in one call, by path. A sink's own weight is left out."""
    paths = attention_paths(model)
    return kept_values(model, CallInputs.of(given), paths)[0]


def head_patterns(model: Transformer, given: Tensor | CallInputs | None = None) -> tuple[HeadPattern, ...]:
    """What every head looks for in a prompt, by default random tokens x_1 ... x_n x_1 ... x_n, of which the second half has all
    there is to look for. Attention over other keys than the prompt's own tokens is left out."""
    if given is None and model.architecture.two_inputs:
        return ()
    if not model.architecture.vocabularies:
        raise InputError("heads are scored by which tokens are the same, and this model reads none: take attention_patterns")
    prompt = CallInputs.of(repeated_tokens(model) if given is None else given)
    found = []
    for path, weights_BHTS in attention_patterns(model, prompt).items():
        if weights_BHTS.shape[0] != len(prompt) or weights_BHTS.shape[2:] != (prompt.read.shape[1],) * 2:
            continue
        scores = pattern_scores(weights_BHTS, prompt.read)
        found += [
            HeadPattern(path.removesuffix(WEIGHTS), head, **{kind: float(scores[kind][head]) for kind in KINDS})
            for head in range(weights_BHTS.shape[1])
        ]
    return tuple(found)


def repeated_tokens(model: Transformer, *, length: int = LONGEST, without: Collection[int] = ()) -> Tensor:
    """Random tokens of the vocabulary twice over, in `ROWS` rows: (`ROWS`, T).

    T: even, at most `LONGEST`, `length`, that of the texts on which the model was trained, and its table of positions.
    `without`: numbers that are not drawn, such as special tokens. No token comes twice in a half if the vocabulary has enough.
    """
    if not model.architecture.vocabularies:
        raise InputError("random tokens are of a vocabulary, and this model has none: give it what it reads")
    left_out = frozenset(without)
    drawn = np.array([number for number in range(min(model.architecture.vocabularies.values())) if number not in left_out])
    if not len(drawn):
        raise InputError(f"no token is left to draw without those {len(left_out)}: leave fewer out")
    half = max(1, min(LONGEST, length, model.architecture.output_stack.max_length or LONGEST) // 2)
    draws = Draws.of(np.arange(ROWS), 0)
    enough = len(drawn) >= half
    tokens = drawn[draws.shuffled("tokens", len(drawn), half) if enough else draws.below("tokens", len(drawn), half)]
    return torch.from_numpy(np.concatenate([tokens, tokens], axis=1)).to(model.device)


def pattern_table(found: Sequence[HeadPattern], *, most: int = 20, by: str = "induction", read: str = "") -> Table:
    """The heads with the largest score of a kind; `read`: what they were scored on, for the title."""
    if by not in KINDS:
        raise InputError(f"heads are ordered by {', '.join(KINDS)}, not by {by!r}{did_you_mean(by, KINDS)}")
    order = sorted(found, key=lambda each: -vars(each)[by])[:most]
    rows = [(each.path, str(each.head), *(f"{vars(each)[kind]:.3f}" for kind in KINDS)) for each in order]
    cut = f", {len(order)} of {len(found)}" if len(order) < len(found) else ""
    title = f"mean attention weight of heads{f' in {read}' if read else ''}{cut}"
    return table_of(title, ("attention", "head", *KINDS), rows)
