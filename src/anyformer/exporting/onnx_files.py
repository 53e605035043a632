"""Graphs as files of ONNX, by torch's exporter."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from anyformer.exporting.graph import Graph
from anyformer.exporting.graphs import ExportError
from anyformer.exporting.operators import translations

OPSET: Final = 18
"""The version of ONNX's operators, which every reader of the last years knows."""
LARGEST: Final = 1_500_000_000
"""Bytes of weights beyond which they stand in a file of their own: a file of ONNX holds 2 GB at most."""
_SHOWN = 300


def check_installed() -> None:
    """Refuse without the packages that torch's exporter needs."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ExportError(f"{error.name} is missing: pip install 'anyformer[onnx]'") from None


def write_graph(graph: Graph, path: Path) -> bool:
    """Write one graph; whether its weights stand beside it, in the file of the same name and `_data`."""
    import onnx_ir

    program = _program(graph)
    bytes_held = sum(parameter.nbytes for parameter in graph.parameters())
    beside = f"{path.name}_data" if bytes_held > LARGEST else None
    path.parent.mkdir(exist_ok=True)
    onnx_ir.save(program.model, path, external_data=beside)
    return beside is not None


def traced(graph: Graph) -> torch.export.ExportedProgram:
    """The operations of a graph, for any sizes of its named axes; `ExportError` where a part depends on one of them."""
    examples: tuple[Tensor, ...] = tuple(port.example() for port in graph.inputs)
    sizes = tuple(dict.fromkeys(port.axes, torch.export.Dim.DYNAMIC) for port in graph.inputs)
    with torch.no_grad(), _refusing(), _quiet():
        return torch.export.export(graph.eval(), examples, dynamic_shapes=(sizes,), strict=False)


def _program(graph: Graph) -> Any:
    """The graph as torch's exporter gives it, with the axes named."""
    operations = traced(graph)
    with torch.no_grad(), _refusing(), _quiet():
        program = torch.onnx.export(
            operations, dynamo=True, opset_version=OPSET, custom_translation_table=translations(), verbose=False,
            input_names=[port.name for port in graph.inputs], output_names=list(graph.outputs),
        )  # fmt: skip
    assert program is not None, "without a file to write to, it gives the program"
    _name_axes(program.model, graph)
    _forget_sources(program.model)
    return program


def _name_axes(model: Any, graph: Graph) -> None:
    """Give the axes of inputs and outputs the names of the ports in the place of the exporter's symbols."""
    import onnx_ir

    names = {
        str(value.shape[axis]): name
        for value, port in zip(model.graph.inputs, graph.inputs, strict=True)
        for axis, name in port.axes.items()
    }
    for value in (*model.graph.inputs, *model.graph.outputs, *(made for node in model.graph for made in node.outputs)):
        for axis, size in enumerate(value.shape or ()):
            if str(size) in names:
                value.shape[axis] = onnx_ir.SymbolicDim(names[str(size)])


def _forget_sources(model: Any) -> None:
    """Take out where in the code each operation stands, which is most of a small file and tells of the machine."""
    from onnx_ir.traversal import RecursiveGraphIterator

    for graph in (model.graph, *model.functions.values()):
        for node in RecursiveGraphIterator(graph):
            node.metadata_props.clear()
            node.doc_string = None
            for value in node.outputs:
                value.metadata_props.clear()


@contextmanager
def _refusing() -> Iterator[None]:
    """Whatever the exporter raises of a module that it cannot follow, as a refusal with the innermost cause."""
    try:
        yield
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        line = " ".join(str(cause).split())[:_SHOWN]
        raise ExportError(f"torch's exporter cannot write this model: {type(cause).__name__}: {line}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says of its own work."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
