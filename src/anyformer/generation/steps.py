"""Which decode step a text is generated with."""

from __future__ import annotations

from anyformer.describe import UserError
from anyformer.generation import compiled, recorded
from anyformer.generation.decode import Step
from anyformer.model import Transformer
from anyformer.quantising import Quantised


def compiles(max_tokens: int, compile: bool | None) -> bool:
    """Whether the step is compiled: where that is asked for, and for None where the job is long enough to recover the time."""
    return max_tokens >= compiled.LONG_JOB if compile is None else compile


def stepper(model: Transformer, max_tokens: int, compile: bool | None) -> tuple[Step, int]:
    """The decode step to use, and the slots by which the visible part of the state should grow: compiled, or recorded."""
    if any(isinstance(parameter, Quantised) for parameter in model.parameters()):
        if compile:
            raise UserError("a model whose matrices are in few bits is not compiled: leave compiling out")
        compile = False
    if compiles(max_tokens, compile):
        return compiled.of(model), compiled.MULTIPLE
    return recorded.RecordedDecode(), recorded.MULTIPLE
