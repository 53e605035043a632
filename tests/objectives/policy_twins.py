"""The losses of policies as their papers write them, token by token, and batches to compute them of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from anyformer.objectives.policy import PolicyLoss, Rewarded, ScoredTokens, at_the_end, entropies, reverse_divergences

B, G, T, V = 3, 4, 7, 5


class Sampled(NamedTuple):
    """A batch of rollouts: the logits of the model that learns and of the teacher, the tokens, and what is known of them."""

    logits: Tensor
    teacher: Tensor
    tokens: Tensor
    sampled: Tensor
    rewards: Tensor
    mask: Tensor
    values: Tensor

    @property
    def log_p(self) -> Tensor:
        return self.logits.log_softmax(-1).gather(-1, self.tokens[..., None])[..., 0]

    @property
    def reference(self) -> Tensor:
        return self.teacher.log_softmax(-1).gather(-1, self.tokens[..., None])[..., 0]

    @property
    def rewarded(self) -> Rewarded:
        return Rewarded(at_the_end(self.rewards, self.mask), self.mask, G, self.sampled, self.reference, self.values)

    def scored(self, advantages: Tensor, mask: Tensor) -> ScoredTokens:
        before = self.sampled + 0.1 * torch.cos(torch.arange(T))
        return ScoredTokens(
            self.log_p, self.sampled, self.reference, advantages, mask, entropies(self.logits), before,
            reverse_divergences(self.logits, self.teacher),
        )  # fmt: skip

    def loss(self, policy: PolicyLoss, off_policy: bool = False) -> Tensor:
        """The loss of the whole batch as one step; `off_policy`: with another policy before it than the sampler's."""
        learnt, advantages = policy.learnt(self.rewarded), policy.advantages(self.rewarded)
        scored = self.scored(advantages, learnt)
        losses = policy.losses(scored if off_policy else scored._replace(before_RT=None))
        return losses.sum() / policy.counts(learnt, G).sum()


def drawn(seed: int = 0, moved: float = 0.4) -> Sampled:
    """Rows of several lengths with tokens of an environment among them; ratios are e^(+-moved), or 1."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    mask = torch.rand(B * G, T, generator=generator) < 0.7
    mask[:, 0] = True
    logits, tokens = normal(B * G, T, V), torch.randint(V, (B * G, T), generator=generator)
    own = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    return Sampled(
        logits.requires_grad_(), normal(B * G, T, V), tokens, own.detach() + moved * normal(B * G, T), normal(B * G), mask,
        normal(B * G, T),
    )  # fmt: skip


def places(mask: Tensor, row: int) -> list[int]:
    return [t for t in range(mask.shape[1]) if mask[row, t]]


def groups() -> Iterator[list[int]]:
    return (list(range(b * G, (b + 1) * G)) for b in range(B))


def clipped(ratio: Tensor, advantage: Tensor, low: float = 0.2, high: float = 0.2) -> Tensor:
    return torch.min(ratio * advantage, torch.clamp(ratio, 1 - low, 1 + high) * advantage)


def grouped(rewards: Tensor, over_std: bool = True) -> Tensor:
    found = rewards.clone()
    for rows in groups():
        of = rewards[rows]
        found[rows] = (of - of.mean()) / (of.std() + 1e-4 if over_std else 1)
    return found


def reinforce(x: Sampled) -> Tensor:
    return -sum(x.rewards[i] * x.log_p[i, t] for i in range(B * G) for t in places(x.mask, i)) / (B * G)


def penalised(x: Sampled, beta: float) -> list[Tensor]:
    """The rewards of tokens less the penalty, by row."""
    found = []
    for i in range(B * G):
        rewards = [-beta * (x.sampled[i, t] - x.reference[i, t]) for t in places(x.mask, i)]
        rewards[-1] = rewards[-1] + x.rewards[i]
        found.append(torch.stack(rewards))
    return found


def rloo(x: Sampled) -> Tensor:
    rewards, total = torch.stack([row.sum() for row in penalised(x, 0.05)]), torch.zeros(())
    for rows in groups():
        for i in rows:
            others = torch.stack([rewards[j] for j in rows if j != i]).mean()
            ratio = torch.stack([x.log_p[i, t] - x.sampled[i, t] for t in places(x.mask, i)]).sum().exp()
            total = total - clipped(ratio, rewards[i] - others)
    return total / (B * G)


def advantages_of(rewards: list[float], values: list[float], discount: float, trace: float) -> list[float]:
    """Generalised advantages of one row by their definition, a sum over later differences."""
    values = [*values, 0.0]
    differences = [reward + discount * values[t + 1] - values[t] for t, reward in enumerate(rewards)]
    return [sum((discount * trace) ** k * d for k, d in enumerate(differences[t:])) for t in range(len(rewards))]


def ppo(x: Sampled) -> Tensor:
    total, count = torch.zeros(()), 0
    for i, rewards in enumerate(penalised(x, 0.05)):
        where = places(x.mask, i)
        found = advantages_of(rewards.tolist(), x.values[i, where].tolist(), 1.0, 0.95)
        for t, advantage in zip(where, found, strict=True):
            total, count = total - clipped((x.log_p[i, t] - x.sampled[i, t]).exp(), torch.tensor(advantage)), count + 1
    return total / count


def by_token(x: Sampled, term: Callable[[Tensor, Tensor, int, int], Tensor], advantages: Tensor) -> list[list[Tensor]]:
    """-term(r, A, i, t) by row."""
    return [
        [-term((x.log_p[i, t] - x.sampled[i, t]).exp(), advantages[i], i, t) for t in places(x.mask, i)] for i in range(B * G)
    ]


def grpo(x: Sampled) -> Tensor:
    def term(ratio: Tensor, advantage: Tensor, i: int, t: int) -> Tensor:
        other = (x.reference[i, t] - x.log_p[i, t]).exp()
        return clipped(ratio, advantage) - 0.04 * (other - other.log() - 1)

    return torch.stack([sum(row) / len(row) for row in by_token(x, term, grouped(x.rewards))]).mean()


def dr_grpo(x: Sampled) -> Tensor:
    rows = by_token(x, lambda ratio, advantage, i, t: clipped(ratio, advantage), grouped(x.rewards, over_std=False))
    return torch.stack([sum(row) / 9 for row in rows]).mean()


def dapo(x: Sampled) -> Tensor:
    rows = by_token(x, lambda ratio, advantage, i, t: clipped(ratio, advantage, 0.2, 0.28), grouped(x.rewards))
    kept = [rows[i] for of in groups() for i in of if len(set(x.rewards[of].tolist())) > 1]
    return sum(sum(row) for row in kept) / sum(map(len, kept))


def gspo(x: Sampled) -> Tensor:
    found, advantages = [], grouped(x.rewards)
    for i in range(B * G):
        logs = [x.log_p[i, t] - x.sampled[i, t] for t in places(x.mask, i)]
        found.append(-clipped((sum(logs) / len(logs)).exp(), advantages[i], 3e-4, 4e-4))
    return torch.stack(found).mean()


def cispo(x: Sampled) -> Tensor:
    rows = by_token(x, lambda ratio, a, i, t: ratio.detach().clamp(max=5) * a * x.log_p[i, t], grouped(x.rewards))
    return sum(sum(row) for row in rows) / sum(map(len, rows))


def sapo(x: Sampled) -> Tensor:
    def term(ratio: Tensor, advantage: Tensor, i: int, t: int) -> Tensor:
        steep = 1.0 if advantage > 0 else 1.05
        return 4 / steep / (1 + (-steep * (ratio - 1)).exp()) * advantage

    return torch.stack([sum(row) / len(row) for row in by_token(x, term, grouped(x.rewards))]).mean()


def expert_iteration(x: Sampled) -> Tensor:
    best = [max(rows, key=lambda i: float(x.rewards[i])) for rows in groups()]
    found = [-x.log_p[i, t] for i in best for t in places(x.mask, i)]
    return sum(found) / len(found)


def on_policy_distillation(x: Sampled) -> Tensor:
    found = []
    for i in range(B * G):
        for t in places(x.mask, i):
            last = t == places(x.mask, i)[-1]
            advantage = x.reference[i, t] - x.sampled[i, t] + (x.rewards[i] if last else 0)
            found.append(-(x.log_p[i, t] - x.sampled[i, t]).exp() * advantage)
    return sum(found) / len(found)


def exact_on_policy_distillation(x: Sampled) -> Tensor:
    found = []
    for i in range(B * G):
        for t in places(x.mask, i):
            p, q = x.logits[i, t].softmax(-1), x.teacher[i, t].softmax(-1)
            found.append(sum(p[v] * (p[v] / q[v]).log() for v in range(V)))
            if t == places(x.mask, i)[-1]:
                found[-1] = found[-1] - x.rewards[i] * (x.log_p[i, t] - x.log_p[i, t].detach() + 1)
    return sum(found) / len(found)


TWINS: dict[str, Callable[[Sampled], Tensor]] = {
    "REINFORCE": reinforce,
    "RLOO": rloo,
    "PPO": ppo,
    "GRPO": grpo,
    "Dr. GRPO": dr_grpo,
    "DAPO": dapo,
    "GSPO": gspo,
    "CISPO": cispo,
    "SAPO": sapo,
    "expert iteration": expert_iteration,
    "on-policy distillation": on_policy_distillation,
    "exact on-policy distillation": exact_on_policy_distillation,
}
