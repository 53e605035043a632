"""Loggers: places beside `metrics.jsonl` to which a run tells its metrics, one file each.

The metrics in the run's directory are the only truth. Every logger follows them in a thread of its own, so that it can neither
delay nor end the run nor change its numbers; and what it missed, it is told when the run goes on.
"""

from anyformer.training.loggers.following import Following
from anyformer.training.loggers.logger import Ending, Logger, LoggerList, Start, Writer, check_loggers
from anyformer.training.loggers.mlflow import Mlflow
from anyformer.training.loggers.tensorboard import Tensorboard
from anyformer.training.loggers.trackio import Trackio
from anyformer.training.loggers.wandb import Wandb

__all__ = [
    "Ending",
    "Following",
    "Logger",
    "LoggerList",
    "Mlflow",
    "Start",
    "Tensorboard",
    "Trackio",
    "Wandb",
    "Writer",
    "check_loggers",
]
