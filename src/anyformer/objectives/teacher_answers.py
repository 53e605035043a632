"""A teacher's answers that are kept: its likeliest tokens at every target, and the divergence over them and the rest as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples

ANSWER_BYTES = 4 + 8
"""Bytes of one likely token of a target in a batch: its log-probability in fp32 and its number in 64 bits."""


@dataclass(frozen=True)
class AskedTeacher:
    """A model at `path` that is asked about every training example before the first update, and then needed no more.

    `kept`: the tokens of each target whose log-probabilities at a `temperature` are kept; `facts`: plain data, all that the
    examples depend on beside data, length and seed; `logits`: its answer, (B, T, V) or (B, V).
    """

    path: str
    kept: int
    temperature: float
    facts: Mapping[str, Any]
    logits: Callable[[Transformer, Examples], Tensor]

    @torch.no_grad()
    def answer(self, model: Transformer, examples: Examples) -> tuple[Tensor, Tensor]:
        """Of each of N targets in order the k largest of log softmax(logits / T), (N, k) in fp32, and their tokens, (N, k)."""
        logits = self.logits(model, examples)[examples.targets != IGNORED]
        values, tokens = torch.log_softmax(logits.float() / self.temperature, -1).topk(self.kept)
        return values, tokens


def kept_divergence(logits: Tensor, examples: Examples, temperature: float) -> Tensor:
    """sum_i w_i KL(p_i || q_i) over the targets, in nats, where all but the teacher's k likeliest tokens are one: a 0-d tensor.

    sum_j p_j (log p_j - log q_j) + p_rest (log p_rest - log q_rest), j the k tokens, p the teacher's probabilities and q those
    of softmax(logits / T). By the log-sum inequality (Cover and Thomas, theorem 2.7.1) at most the divergence over all tokens,
    and equal to it for k = V, where there is no rest. Logits (B, T, V) or (B, V).
    """
    log_p, tokens = examples.taught, examples.taught_tokens
    assert log_p is not None, "training examples have the teacher's answers beside them"
    assert tokens is not None, "training examples have the teacher's answers beside them"
    # Gathered before they are divided: for its gradient a gather keeps all logits, which the data's own loss keeps too.
    chosen, p = logits.gather(-1, tokens).float() / temperature, log_p.exp()
    log_z, extra = chosen.logsumexp(-1), torch.zeros((), device=p.device)
    if log_p.shape[-1] < logits.shape[-1]:
        rest = (1 - p.sum(-1)).clamp(min=0)
        # Of the other logits themselves: of 1 - sum_j q_j nothing is left where the student is sure.
        log_rest = (logits.float() / temperature).scatter(-1, tokens, float("-inf")).logsumexp(-1)
        log_z = torch.logaddexp(log_z, log_rest)
        extra = torch.xlogy(rest, rest) - rest * (log_rest - log_z)
    # A token that the teacher rules out has the logarithm -inf, and counts as 0 log 0 = 0.
    each = (p * (log_p.clamp(min=-1e4) - chosen + log_z[..., None])).sum(-1) + extra
    if examples.weights is not None:
        each = each * examples.weights
    return torch.where(examples.targets != IGNORED, each, 0.0).sum()
