"""Losses of policies: how a model learns from what it sampled itself and a reward; imports nothing of sampling."""

from anyformer.objectives.policy.advantages import (
    Advantage,
    BatchMeanAdvantage,
    BatchStdAdvantage,
    EqualAdvantage,
    GroupMeanAdvantage,
    LeaveOneOutAdvantage,
    ReturnsAdvantage,
    ValuesAdvantage,
)
from anyformer.objectives.policy.clips import AsymmetricClip, DetachedClip, DualClip, NoClip, RatioClip, SoftClip, SymmetricClip
from anyformer.objectives.policy.corrections import Correction, DistantCorrection, MaskedCorrection, TruncatedCorrection
from anyformer.objectives.policy.distributions import entropies, reverse_divergences
from anyformer.objectives.policy.divergences import ESTIMATORS, Divergence, LossDivergence, RewardDivergence
from anyformer.objectives.policy.loss import PolicyLoss
from anyformer.objectives.policy.normalisers import ConstantNormaliser, Normaliser, SequenceNormaliser, TokenNormaliser
from anyformer.objectives.policy.ratios import NoRatio, ProductRatio, Ratio, SequenceRatio, TokenRatio
from anyformer.objectives.policy.recipes import (
    RECIPES,
    cispo,
    dapo,
    dr_grpo,
    exact_on_policy_distillation,
    expert_iteration,
    grpo,
    gspo,
    on_policy_distillation,
    ppo,
    reinforce,
    rloo,
    sapo,
)
from anyformer.objectives.policy.scored import Rewarded, ScoredTokens, at_the_end
from anyformer.objectives.policy.selections import AboveSelection, BestSelection, RowSelection, VariedSelection
from anyformer.objectives.policy.values import generalised_advantages, value_losses

__all__ = [
    "ESTIMATORS",
    "RECIPES",
    "AboveSelection",
    "Advantage",
    "AsymmetricClip",
    "BatchMeanAdvantage",
    "BatchStdAdvantage",
    "BestSelection",
    "ConstantNormaliser",
    "Correction",
    "DetachedClip",
    "DistantCorrection",
    "Divergence",
    "DualClip",
    "EqualAdvantage",
    "GroupMeanAdvantage",
    "LeaveOneOutAdvantage",
    "LossDivergence",
    "MaskedCorrection",
    "NoClip",
    "NoRatio",
    "Normaliser",
    "PolicyLoss",
    "ProductRatio",
    "Ratio",
    "RatioClip",
    "ReturnsAdvantage",
    "RewardDivergence",
    "Rewarded",
    "RowSelection",
    "ScoredTokens",
    "SequenceNormaliser",
    "SequenceRatio",
    "SoftClip",
    "SymmetricClip",
    "TokenNormaliser",
    "TokenRatio",
    "TruncatedCorrection",
    "ValuesAdvantage",
    "VariedSelection",
    "at_the_end",
    "cispo",
    "dapo",
    "dr_grpo",
    "entropies",
    "exact_on_policy_distillation",
    "expert_iteration",
    "generalised_advantages",
    "grpo",
    "gspo",
    "on_policy_distillation",
    "ppo",
    "reinforce",
    "reverse_divergences",
    "rloo",
    "sapo",
    "value_losses",
]
