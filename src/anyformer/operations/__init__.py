"""The declarations of a part: weights, operations, decode state, limits, each at a typed address. No torch here."""

from anyformer.operations.address import Address
from anyformer.operations.extent import Extent
from anyformer.operations.limits import Contract, Limit
from anyformer.operations.shape import Shape
from anyformer.operations.tally import Inner, Node, StateBytes, Tally, matrix, total
from anyformer.operations.watchable import Watchable, Watchables, inside, sized, value
from anyformer.operations.weight import AxisName, Dimension, Fill, Role, Weight, Wider
from anyformer.operations.work import (
    Contraction,
    Elementwise,
    ExpertProduct,
    Flops,
    Kind,
    Operation,
    Pairs,
    Product,
    distinct_experts,
)

__all__ = [
    "Address",
    "AxisName",
    "Contract",
    "Contraction",
    "Dimension",
    "Elementwise",
    "ExpertProduct",
    "Extent",
    "Fill",
    "Flops",
    "Inner",
    "Kind",
    "Limit",
    "Node",
    "Operation",
    "Pairs",
    "Product",
    "Role",
    "Shape",
    "StateBytes",
    "Tally",
    "Watchable",
    "Watchables",
    "Weight",
    "Wider",
    "distinct_experts",
    "inside",
    "matrix",
    "sized",
    "total",
    "value",
]
