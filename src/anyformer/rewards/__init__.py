"""Rewards: what an answer that a model gave is worth, as values of a run; a class enters the registry by being defined."""

from anyformer.rewards.exact_match import ExactMatchReward
from anyformer.rewards.reward import Grade, Query, Response, Reward, RewardError
from anyformer.rewards.task import TaskReward

__all__ = [
    "ExactMatchReward",
    "Grade",
    "Query",
    "Response",
    "Reward",
    "RewardError",
    "TaskReward",
]
