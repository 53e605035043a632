"""What is told of whole distributions over the vocabulary, and not of the sampled tokens alone."""

from __future__ import annotations

from torch import Tensor


def entropies(logits: Tensor) -> Tensor:
    """H(p) = -sum_v p_v log p_v in nats, p = softmax(logits) over the last dimension, in fp32 or more; a token that is ruled
    out by a logit of -inf counts as 0."""
    log_p = _log_softmax(logits)
    return -(log_p.exp() * log_p.masked_fill(log_p.isinf(), 0.0)).sum(-1)


def reverse_divergences(logits: Tensor, teacher: Tensor) -> Tensor:
    """KL(p || q) = sum_v p_v (log p_v - log q_v) in nats over the last dimension, p = softmax(logits), q = softmax(teacher), in
    fp32 or more.

    The loss of on-policy distillation on tokens that the student sampled (Gu et al. 2024, arXiv 2306.08543; Agarwal et al.
    2024, arXiv 2306.13649, equation 4). A token that the student rules out counts as 0; one that the teacher alone does is
    infinite.
    """
    log_p, log_q = _log_softmax(logits), _log_softmax(teacher)
    return (log_p.exp() * (log_p - log_q).masked_fill(log_p.isinf(), 0.0)).sum(-1)


def _log_softmax(logits: Tensor) -> Tensor:
    return (logits.float() if logits.dtype.itemsize < 4 else logits).log_softmax(-1)
