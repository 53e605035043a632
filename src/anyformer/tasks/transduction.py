"""`Transduction`: tasks of a question and its answer behind it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from anyformer.data import IGNORED
from anyformer.tasks.draws import Ints
from anyformer.tasks.task import Task, TaskBatch


class Transduction(Task):
    """A question x_1 ... x_S, the sign `=`, and the answer y_1 ... y_A. The base of such tasks.

    A decoder reads x_1 ... x_S = y_1 ... y_{A-1} and says y_i at the position before it: S + A positions. A model with two
    inputs has x as its source and y as its target.
    """

    def line(self, question: Ints, answer: Ints, chances: ArrayLike, sign: int, distances: Ints | None = None) -> TaskBatch:
        """The sequences of questions (B, S) and answers (B, A); `chances` and `distances`: of the answers, (B, A) or (A,)."""
        rows, S = question.shape
        tokens = np.concatenate([question, np.full((rows, 1), sign, dtype=np.int64), answer[:, :-1]], axis=1)
        targets = np.concatenate([np.full_like(question, IGNORED), answer], axis=1)
        levels, far = (
            np.concatenate([np.zeros(question.shape), np.broadcast_to(np.asarray(each), answer.shape)], axis=1)
            for each in (chances, 0 if distances is None else distances)
        )
        return TaskBatch.of(tokens, targets, levels, distances=far.astype(np.int64), together=True, source=S)
