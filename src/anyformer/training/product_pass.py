"""The products of a compiled graph in fp32 by oneDNN in place of BLAS. Imports torch's compiler."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

ROWS, FEATURES = 64, 16
"""Smaller products stay: what they take is the call."""
MM, ADDMM = torch.ops.aten.mm.default, torch.ops.aten.addmm.default


@torch.library.custom_op("anyformer::onednn_product", mutates_args=(), device_types="cpu")
def product(x_TI: Tensor, y_IO: Tensor, bias_O: Tensor | None) -> Tensor:
    """x y + bias by oneDNN's inner product, (T, O); y may lie in memory by rows or by columns."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x_TI, y_IO.t(), bias_O, "none", [], "")
    return found


@product.register_fake
def _(x_TI: Tensor, y_IO: Tensor, bias_O: Tensor | None) -> Tensor:
    return x_TI.new_empty(x_TI.shape[0], y_IO.shape[1])


class ByOneDNN(CustomGraphPass):
    """Gives oneDNN the products whose rows lie side by side: a layer's own, and those for the gradient of its input.

    The gradient of a weight, x^T y, reads its first factor by columns; BLAS is the faster one there.
    """

    def __call__(self, graph: Graph) -> None:
        """Replace them in `graph`."""
        for node in list(graph.nodes):
            if node.op != "call_function" or node.target not in (MM, ADDMM) or node.kwargs:
                continue
            bias, x, y = (None, *node.args) if node.target is MM else node.args
            if _by_rows(x, y) and (bias is None or _of_features(bias, y)):
                with graph.inserting_before(node):
                    new = graph.call_function(torch.ops.anyformer.onednn_product.default, (x, y, bias))
                new.meta.update(node.meta)
                node.replace_all_uses_with(new)
                graph.erase_node(node)

    def uuid(self) -> bytes:
        """What graphs on disk are kept under."""
        return get_hash_for_files((__file__,))


def _by_rows(x: Node, y: Node) -> bool:
    """Whether oneDNN may multiply them: fp32 on a processor, x by rows, y without gaps, neither small."""
    x_TI, y_IO = x.meta["val"], y.meta["val"]
    plain = all(z.dtype == torch.float32 and z.device.type == "cpu" for z in (x_TI, y_IO))
    large = x_TI.shape[0] >= ROWS and min(y_IO.shape) >= FEATURES
    return plain and large and x_TI.is_contiguous() and (y_IO.is_contiguous() or y_IO.t().is_contiguous())


def _of_features(bias: Node, y: Node) -> bool:
    """Whether it is one number per output."""
    return bool(bias.meta["val"].shape == (y.meta["val"].shape[1],) and bias.meta["val"].is_contiguous())
