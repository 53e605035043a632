"""Published ways of reinforcement learning as values of `PolicyLoss`. pi: the policy, r = pi / pi_old, y_i the answers of a
group of G, R_i their rewards; sums over t are over the tokens of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anyformer.objectives.policy.advantages import (
    EqualAdvantage,
    GroupMeanAdvantage,
    LeaveOneOutAdvantage,
    ReturnsAdvantage,
    ValuesAdvantage,
)
from anyformer.objectives.policy.clips import AsymmetricClip, DetachedClip, NoClip, SoftClip
from anyformer.objectives.policy.divergences import LossDivergence, RewardDivergence
from anyformer.objectives.policy.loss import PolicyLoss
from anyformer.objectives.policy.normalisers import ConstantNormaliser, TokenNormaliser
from anyformer.objectives.policy.ratios import NoRatio, ProductRatio, SequenceRatio
from anyformer.objectives.policy.selections import BestSelection, VariedSelection


def reinforce() -> PolicyLoss:
    """grad L = -mean_i sum_t A_t grad log pi(y_t), A_t = sum_(t' >= t) R_t' (Williams 1992, doi 10.1007/BF00992696)."""
    return PolicyLoss(advantage=ReturnsAdvantage(), ratio=NoRatio(), clip=NoClip(), normaliser=ConstantNormaliser())


def rloo(beta: float | None = 0.05) -> PolicyLoss:
    """L = -mean_i min(r_i A_i, clip(r_i, 0.8, 1.2) A_i), r_i = pi(y_i) / pi_old(y_i), A_i = R_i - mean_(j != i) R_j.

    R has beta (log pi_old(y_i) - log ref(y_i)) taken off. Where r = 1 the gradient is -mean_i A_i grad log pi(y_i), the paper's
    (Ahmadian et al. 2024, arXiv 2402.14740); the clip is for more than one update per rollout, as in TRL.
    """
    return PolicyLoss(
        advantage=LeaveOneOutAdvantage(), ratio=ProductRatio(), divergence=RewardDivergence(beta=beta) if beta else None
    )


def ppo(beta: float | None = 0.05, trace: float = 0.95) -> PolicyLoss:
    """L = -mean_t min(r_t A_t, clip(r_t, 0.8, 1.2) A_t), A of a value head by generalised advantage estimation, and beta (log
    pi_old - log ref) taken off every token's reward (Schulman et al. 2017, arXiv 1707.06347, equation 7; for text Ouyang et al.
    2022, arXiv 2203.02155)."""
    return PolicyLoss(
        advantage=ValuesAdvantage(trace=trace),
        normaliser=TokenNormaliser(),
        divergence=RewardDivergence(beta=beta) if beta else None,
    )


def grpo(beta: float | None = 0.04) -> PolicyLoss:
    """L = -1/G sum_i 1/|y_i| sum_t (min(r_t A_i, clip(r_t, 0.8, 1.2) A_i) - beta k3_t), A_i = (R_i - mean R) / std R, k3 = ref
    / pi - log(ref / pi) - 1 (Shao et al. 2024, arXiv 2402.03300, equations 3 and 4)."""
    return PolicyLoss(divergence=LossDivergence(beta=beta) if beta else None)


def dr_grpo(length: int) -> PolicyLoss:
    """L = -1/G sum_i 1/length sum_t min(r_t A_i, clip(r_t, 0.8, 1.2) A_i), A_i = R_i - mean R: GRPO without what favours long
    wrong answers and samples of little variance (Liu et al. 2025, arXiv 2503.20783). `length`: the most tokens of an answer."""
    return PolicyLoss(advantage=GroupMeanAdvantage(over_std=False), normaliser=ConstantNormaliser(length=length))


def dapo() -> PolicyLoss:
    """L = -1/(sum_i |y_i|) sum_i sum_t min(r_t A_i, clip(r_t, 0.8, 1.28) A_i), A as GRPO's, of samples whose rewards differ (Yu
    et al. 2025, arXiv 2503.14476, section 3). Its penalty of long answers is a reward."""
    return PolicyLoss(clip=AsymmetricClip(), normaliser=TokenNormaliser(), selection=VariedSelection())


def gspo() -> PolicyLoss:
    """L = -1/G sum_i min(s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i), s_i = (pi(y_i) / pi_old(y_i))^(1/|y_i|), A as GRPO's
    (Zheng et al. 2025, arXiv 2507.18071, equations 5 and 7, section 5.1)."""
    return PolicyLoss(ratio=SequenceRatio(), clip=AsymmetricClip(low=3e-4, high=4e-4))


def cispo(high: float = 4.0) -> PolicyLoss:
    """L = -1/(sum_i |y_i|) sum_i sum_t sg(min(r_t, 1 + high)) A_i log pi(y_t), A as GRPO's, sg: no gradient (MiniMax 2025,
    arXiv 2506.13585, section 3.1, with no bound below)."""
    return PolicyLoss(clip=DetachedClip(high=high), normaliser=TokenNormaliser())


def sapo() -> PolicyLoss:
    """L = -1/G sum_i 1/|y_i| sum_t (4 / t) sigmoid(t (r_t - 1)) A_i, t = 1 where A_i > 0 and 1.05 elsewhere, A as GRPO's (Gao
    et al. 2025, arXiv 2511.20347)."""
    return PolicyLoss(clip=SoftClip())


def expert_iteration(count: int = 1, least: float | None = None) -> PolicyLoss:
    """L = -mean_t log pi(y_t) over the tokens of the `count` best answers of a group, of those with a reward of `least` or more
    (rejection sampling; Dong et al. 2023, arXiv 2304.06767)."""
    return PolicyLoss(
        advantage=EqualAdvantage(), ratio=NoRatio(), clip=DetachedClip(), normaliser=TokenNormaliser(),
        selection=BestSelection(count=count, least=least),
    )  # fmt: skip


def on_policy_distillation() -> PolicyLoss:
    """grad L = mean_t (log pi_old(y_t) - log teacher(y_t)) grad log pi(y_t) at r = 1: the reverse divergence from a teacher, of
    own samples, by one token per position; what follows a token is not held against it (Lu et al. 2025, "On-policy
    distillation"). The reference is the teacher; rewards of tasks may be added."""
    return PolicyLoss(
        advantage=ReturnsAdvantage(discount=0.0), clip=NoClip(), normaliser=TokenNormaliser(),
        divergence=RewardDivergence(beta=1.0),
    )  # fmt: skip


def exact_on_policy_distillation() -> PolicyLoss:
    """L = mean_t KL(pi(. | y_<t) || teacher(. | y_<t)) over all tokens of the vocabulary, at own samples y, which have no
    gradient (Agarwal et al. 2024, arXiv 2306.13649, equation 4)."""
    return PolicyLoss(
        advantage=ReturnsAdvantage(discount=0.0), ratio=NoRatio(), clip=NoClip(), normaliser=TokenNormaliser(),
        divergence=LossDivergence(beta=1.0, estimator="exact"),
    )  # fmt: skip


RECIPES: Mapping[str, Callable[..., PolicyLoss]] = {
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
"""The recipes by the name of their papers; Dr. GRPO needs a length."""
