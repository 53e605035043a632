"""The kernels of a product in training: operands in fewer bits, and the gradient of its weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from anyformer.costs.kernel import Kernel
from anyformer.model.narrow_choice import chosen
from anyformer.operations import ExpertProduct, Flops, Product, Weight
from anyformer.plan import Plan
from anyformer.precision import Narrow


def gradient_apart(kernel: Kernel, weight: int, size: int, added: int) -> Iterator[Kernel]:
    """A product of three passes as two kernels: the gradient of its weight, of `added` bytes a number, is read and written
    where the gradients of micro-batches add up, instead of written in `size` bytes."""
    third = replace(
        kernel,
        flops=Flops(kernel.flops.dense // 3, kernel.flops.exact // 3),
        executed=kernel.executed // 3,
        moves=kernel.moves // 3,
        weights=2 * added * weight,
        launches=1,
        passes=0,
    )
    yield replace(
        kernel,
        flops=third.flops * 2,
        executed=kernel.executed - third.executed,
        moves=kernel.moves - third.moves,
        weights=kernel.weights - size * weight,
        launches=2,
        passes=2,
    )
    yield third


def narrow_format(plan: Plan, product: Product | ExpertProduct, weight: Weight | None) -> Narrow | None:
    """The format of a product's operands in fewer bits, where it has such."""
    narrow = plan.precision.narrow
    if isinstance(product, ExpertProduct):
        fits = narrow is not None and narrow.experts and narrow.chooses(product.outputs, product.inputs)
        return narrow if fits else None
    return None if weight is None else chosen(plan.precision, weight)


def narrowed(wide: Kernel, product: Product | ExpertProduct, rows: int, narrow: Narrow, size: int) -> Iterator[Kernel]:
    """The three products of a weight on operands of fewer bits, and the kernels that round those.

    X, dO and W are each read by two products, and rounded from `size` bytes a number, the weight from 4 in both passes (those
    of experts, which are many for few rows, once in a step, which is not counted); O, dX and dW are written as elsewhere.
    """
    numbers, bits = rows * (product.row_inputs + product.outputs), narrow.bits
    weight = product.weight_read
    rounded = 0 if isinstance(product, ExpertProduct) else weight
    yield replace(
        wide,
        number=narrow.unit,
        moves=int(numbers * (size + 2 * bits / 8)),
        weights=int(weight * (size + 2 * bits / 8)),
    )
    yield replace(
        wide,
        name=f"{wide.name} rounding",
        unit="memory",
        flops=Flops(),
        executed=0,
        moves=int(numbers * (size + bits / 8)),
        weights=int(2 * rounded * (4 + bits / 8)),
        launches=4,
    )
