"""What choices of k experts for a token compute."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.call.noise import mix
from anyformer.parts.experts.balance import picked
from anyformer.parts.experts.selection import Groups, RouterInputs
from anyformer.parts.lookup import rows_of


def best(preference_ZX: Tensor, count: int) -> Tensor:
    """The `count` most preferred experts, (Z, count), best first; the lower number first among equals.

    Scores do tie (a sigmoid saturated at 1, a softmax at 0), and then `topk` promises no order.
    """
    return torch.argsort(preference_ZX, dim=-1, descending=True, stable=True)[:, :count]


def gumbel(uniform: Tensor) -> Tensor:
    """Gumbel noise from uniform numbers in (0, 1): the largest of x + noise is a draw from softmax(x)."""
    return -torch.log(-uniform.log())


def of_best_groups(groups: Groups, preference_ZX: Tensor) -> Tensor:
    """The preferences, -inf or 0 outside the best groups."""
    grouped = preference_ZX.view(preference_ZX.shape[0], groups.count, -1)
    score = grouped.topk(1 if groups.score == "max" else 2, -1).values.sum(-1)
    among_best = picked(best(score, groups.keep), groups.count)
    others = -torch.inf if groups.others == "never" else 0.0
    return torch.where(among_best[:, :, None], grouped, others).view(preference_ZX.shape)


def hashed(tokens_Z: Tensor, seed: int, experts: int) -> Tensor:
    """A hash in 32 bits of (seed, token, expert), (Z, X)."""
    token = mix(tokens_Z ^ (seed * 0x9E3779B1 & 0xFFFFFFFF))
    return mix(token[:, None] ^ mix(torch.arange(experts, device=token.device, dtype=torch.int64)))


def named_first(hashed_ZX: Tensor, table: Tensor, tokens_Z: Tensor, chosen: int) -> Tensor:
    """Hashes, and before them what the token's row of a table (V, J) names, in its order; -1 names none."""
    named_ZJ = rows_of(table, tokens_Z, "tokens with experts of their own")
    # A hash has 32 bits: what the table names comes before all others.
    place_J = torch.arange(chosen, 0, -1, device=named_ZJ.device) << 32
    ahead_ZJ = torch.where(named_ZJ >= 0, place_J, 0)
    return hashed_ZX.scatter_add(1, named_ZJ.clamp(min=0), ahead_ZJ)


def drawn_in_order(margin: float, inputs: RouterInputs) -> Tensor:
    """Scores of `SparseMixer`: the experts drawn first, in their order, then the others."""
    assert inputs.logits is not None
    assert inputs.scores is not None
    order, taken = inputs.scores, torch.zeros_like(inputs.scores, dtype=torch.bool)
    for j in range(inputs.chosen):
        near = near_best(margin, inputs.logits, taken)
        drawn = near if inputs.noise is None else near + gumbel(inputs.noise[:, j])
        now = picked(drawn.argmax(-1, keepdim=True), inputs.experts)
        # Scores are shares, at most 1: the experts drawn come first, in their order, then the others by score.
        order, taken = torch.where(now, float(1 + inputs.chosen - j), order), taken | now
    return order


def midpoint_weights(margin: float, inputs: RouterInputs, chosen_ZJ: Tensor) -> Tensor:
    """Weights of `SparseMixer`, (Z, J), whose gradients are those of its midpoint rule."""
    assert inputs.logits is not None
    weights, taken = [], torch.zeros_like(inputs.logits, dtype=torch.bool)
    for j in range(inputs.chosen):
        expert_Z1, near = chosen_ZJ[:, j : j + 1], near_best(margin, inputs.logits, taken)
        weight_Z = near.softmax(-1).gather(-1, expert_Z1)[:, 0]
        if inputs.noise is not None:
            whole_Z = (expert_Z1[:, 0] == near.argmax(-1)) | (inputs.noise[:, inputs.chosen, j] > 0.75)
            weight_Z = weight_Z - (weight_Z * ~whole_Z * 2 / 3).detach()
        weights.append(weight_Z)
        taken = taken | picked(expert_Z1, inputs.experts)
    return torch.stack(weights, -1)


def near_best(margin: float, logits_ZX: Tensor, taken_ZX: Tensor) -> Tensor:
    """The logits, -inf for an expert that is taken or far from the best one left."""
    left = logits_ZX.masked_fill(taken_ZX, -torch.inf)
    best_Z1 = left.detach().amax(-1, keepdim=True)
    far = (best_Z1 - logits_ZX) / torch.maximum(logits_ZX.abs(), best_Z1) > margin
    return left.masked_fill(far, -torch.inf)
