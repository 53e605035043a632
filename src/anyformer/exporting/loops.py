"""Loops of ONNX, in the language of onnxscript, whose decorator reads their source: so they stand apart from all other code."""

from typing import TypeVar

from onnxscript import BFLOAT16, FLOAT, FLOAT16, INT64, script
from onnxscript import opset18 as op

Numbers = TypeVar("Numbers", bound=FLOAT | FLOAT16 | BFLOAT16)


@script(default_opset=op)  # type: ignore[untyped-decorator]
def by_expert(rows: Numbers, weight: Numbers, ends: INT64) -> Numbers:
    """Rows (Q, I) side by side by expert, matrices (X, O, I), the end of each expert's rows (X,) -> (ends[-1], O)."""
    zero = op.Constant(value_ints=[0])
    one = op.Constant(value_ints=[1])
    experts = op.Squeeze(op.Shape(weight, start=0, end=1))
    y = op.CastLike(op.ConstantOfShape(op.Concat(zero, op.Shape(weight, start=1, end=2), axis=0)), rows)
    start = op.Identity(zero)
    for expert in range(experts):
        stop = op.Reshape(op.Gather(ends, expert, axis=0), one)
        matrix = op.Transpose(op.Gather(weight, expert, axis=0), perm=[1, 0])
        y = op.Concat(y, op.MatMul(op.Slice(rows, start, stop, zero), matrix), axis=0)
        start = op.Identity(stop)
    return y  # type: ignore[no-any-return]
