"""Rewards: what an answer that a model gave is worth, as values of a run; a class enters the registry by being defined."""

from anyformer.rewards.code import CodeReward
from anyformer.rewards.exact_match import ExactMatchReward
from anyformer.rewards.extracted import ExtractedReward
from anyformer.rewards.finished import FinishedReward
from anyformer.rewards.format import FormatReward
from anyformer.rewards.function import FunctionReward, reward_function
from anyformer.rewards.json_schema import JSONSchemaReward
from anyformer.rewards.length import LengthReward
from anyformer.rewards.math import MathReward
from anyformer.rewards.mixture import MixtureReward, WeightedReward
from anyformer.rewards.model import ModelReward
from anyformer.rewards.pattern import PatternReward
from anyformer.rewards.reasoning_gym import ReasoningGymReward, write_problems
from anyformer.rewards.reward import Grade, Judge, Query, Response, Reward, RewardError
from anyformer.rewards.task import TaskReward

__all__ = [
    "CodeReward",
    "ExactMatchReward",
    "ExtractedReward",
    "FinishedReward",
    "FormatReward",
    "FunctionReward",
    "Grade",
    "JSONSchemaReward",
    "Judge",
    "LengthReward",
    "MathReward",
    "MixtureReward",
    "ModelReward",
    "PatternReward",
    "Query",
    "ReasoningGymReward",
    "Response",
    "Reward",
    "RewardError",
    "TaskReward",
    "WeightedReward",
    "reward_function",
    "write_problems",
]
