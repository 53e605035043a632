"""Training: one `Run` value in, one directory out; resuming continues bit for bit."""

from anyformer.training.journal import RunDirectoryError, read_run
from anyformer.training.loop import resume, train
from anyformer.training.restart import begin_or_resume
from anyformer.training.run import Checkpoints, Evaluation, Run, default_run, load_run
from anyformer.training.schedule import ConstantSchedule, Cosine, InverseSquareRoot, Linear, WarmupStableDecay
from anyformer.training.step import NonFiniteError
from anyformer.training.stop import Stopped
from anyformer.training.summary import Summary
from anyformer.training.trained import Trained
from anyformer.tuning import AdamW

__all__ = [
    "AdamW",
    "Checkpoints",
    "ConstantSchedule",
    "Cosine",
    "Evaluation",
    "InverseSquareRoot",
    "Linear",
    "NonFiniteError",
    "Run",
    "RunDirectoryError",
    "Stopped",
    "Summary",
    "Trained",
    "WarmupStableDecay",
    "begin_or_resume",
    "default_run",
    "load_run",
    "read_run",
    "resume",
    "train",
]
