"""Contracts of what is done with a model: it is priced, drawn, saved, exported and loaded again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from anyformer import checkpoint, huggingface
from anyformer.costs import cost
from anyformer.costs.activations import activations
from anyformer.costs.kernel import Mode
from anyformer.costs.kernels import kernels
from anyformer.costs.saved.measured import saved_bytes
from anyformer.describe import PLUGINS
from anyformer.loading import load
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.operations import Flops
from anyformer.pictures import draw_diagram
from anyformer.plan import Plan
from anyformer.precision import Fp32
from anyformer.resolving import architecture as architecture_of
from anyformer.testing.inputs import B, S, T, inputs, shape

MODES: tuple[Mode, ...] = ("train", "prefill", "decode")


def training_is_priced(architecture: Architecture) -> None:
    """A sheet has its parameters, and what a training step keeps, traced on the built module."""
    sheet = cost(architecture, batch=B, length=T, source_length=S if architecture.two_inputs else None, mode="train")
    built = sum(parameter.numel() for parameter in build(architecture, device="meta").parameters())
    assert sheet.params.total == built, f"the sheet has {sheet.params.total} parameters, the module {built}"
    assert sheet.activations.saved > 0, "nothing is kept for the backward pass"
    assert sheet.memory.total > 0


def operations_add_up_to_the_sheet(architecture: Architecture) -> None:
    """The kernels of which a step's time is computed have the FLOPs of its sheet: they know every declared operation."""
    for mode in MODES:
        source = S if architecture.two_inputs else None
        sheet = cost(architecture, batch=B, length=T, source_length=source, mode=mode)
        work = kernels(architecture, sheet.shape, Plan(), mode)
        found = sum((kernel.flops * kernel.layers for kernel in work), Flops())
        counted, declared = (found.dense, found.exact), (sheet.flops.total.dense, sheet.flops.total.exact)
        assert counted == declared, f"{mode}: kernels have {counted} FLOPs, dense and exact, and the sheet {declared}"


def traced_bytes_are_those_that_autograd_keeps(architecture: Architecture) -> None:
    """What is traced without numbers is kept by a forward pass with numbers, to the byte: memory is foretold from the trace."""
    plan, given = Plan(precision=Fp32()), inputs(architecture)
    model = build(architecture, plan).train()

    def forward() -> Tensor:
        return sum((y.sum() for y in model.predictions(*given)), torch.zeros(()))

    traced = activations(architecture, shape(architecture), plan, loss=False)
    kept = saved_bytes(model, forward)
    assert traced.saved + traced.loss + traced.casts == kept, (
        f"the trace has {traced.saved + traced.loss + traced.casts} bytes for the backward pass, and autograd keeps {kept}"
    )


def diagram_is_drawn(architecture: Architecture) -> None:
    """Its blocks, layers and streams become a picture."""
    with tempfile.TemporaryDirectory(prefix="anyformer-check-") as place:
        draw_diagram({"it": architecture}, Path(place) / "diagram.svg")
        assert (Path(place) / "diagram.svg").stat().st_size > 0


def saved_and_exported_are_loaded_again(architecture: Architecture) -> None:
    """A checkpoint, and a directory of our own layout, give back the architecture and every bit, and name the plug-in."""
    model, needed = build(architecture, seed=1), architecture.with_plugins().get(PLUGINS)
    weights = dict(model.named_parameters())
    with tempfile.TemporaryDirectory(prefix="anyformer-check-") as folder:
        saved, exported = Path(folder) / "saved", Path(folder) / "exported"
        checkpoint.save(model, saved)
        huggingface.export(model, exported, model_type=huggingface.own().model_type)
        described = json.loads((saved / "architecture.json").read_text()), json.loads((exported / "config.json").read_text())
        for table, place in zip((described[0], described[1]["architecture"]), (saved, exported), strict=True):
            assert table.get(PLUGINS) == needed, f"{place.name}: names the plug-ins {table.get(PLUGINS)}, and needs {needed}"
            assert architecture_of(place) == architecture, f"{place.name}: gives another architecture"
            again, _ = load(place)
            for name, weight in again.named_parameters():
                assert torch.equal(weight, weights[name]), f"{place.name}: {name} has other values than were written"


CONTRACTS: tuple[Callable[[Architecture], None], ...] = (
    training_is_priced,
    operations_add_up_to_the_sheet,
    traced_bytes_are_those_that_autograd_keeps,
    diagram_is_drawn,
    saved_and_exported_are_loaded_again,
)
