"""Losses of policies: how a model learns from what it sampled itself and a reward; imports nothing of sampling."""

from anyformer.objectives.policy.advantages import Advantage, GroupMeanAdvantage
from anyformer.objectives.policy.clips import AsymmetricClip, DetachedClip, DualClip, NoClip, RatioClip, SymmetricClip
from anyformer.objectives.policy.loss import PolicyLoss
from anyformer.objectives.policy.normalisers import ConstantNormaliser, Normaliser, SequenceNormaliser, TokenNormaliser
from anyformer.objectives.policy.ratios import NoRatio, ProductRatio, Ratio, SequenceRatio, TokenRatio
from anyformer.objectives.policy.scored import Rewarded, ScoredTokens, at_the_end

__all__ = [
    "Advantage",
    "AsymmetricClip",
    "ConstantNormaliser",
    "DetachedClip",
    "DualClip",
    "GroupMeanAdvantage",
    "NoClip",
    "NoRatio",
    "Normaliser",
    "PolicyLoss",
    "ProductRatio",
    "Ratio",
    "RatioClip",
    "Rewarded",
    "ScoredTokens",
    "SequenceNormaliser",
    "SequenceRatio",
    "SymmetricClip",
    "TokenNormaliser",
    "TokenRatio",
    "at_the_end",
]
