"""Contracts of what is done with a model: it is priced, drawn, saved, exported, loaded again and trained.

Each imports what it uses: whoever asks another one does not wait for it.
"""

from __future__ import annotations

import json
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch

from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.testing import built
from anyformer.testing.contract import Contract
from anyformer.testing.inputs import B, S, T


def training_is_priced(architecture: Architecture) -> None:
    """A sheet has its parameters, and what a training step keeps, traced on the built module."""
    from anyformer.costs import cost

    sheet = cost(architecture, batch=B, length=T, source_length=S if architecture.two_inputs else None, mode="train")
    parameters = sum(parameter.numel() for parameter in build(architecture, device="meta").parameters())
    assert sheet.params.total == parameters, f"the sheet has {sheet.params.total} parameters, the module {parameters}"
    assert sheet.activations.saved > 0, "nothing is kept for the backward pass"
    assert sheet.memory.total > 0


def diagram_is_drawn(architecture: Architecture) -> None:
    """Its blocks, layers and streams become a picture."""
    from anyformer.pictures import draw_diagram

    with tempfile.TemporaryDirectory(prefix="anyformer-check-") as place:
        draw_diagram({"it": architecture}, Path(place) / "diagram.svg")
        assert (Path(place) / "diagram.svg").stat().st_size > 0


def saved_and_exported_are_loaded_again(architecture: Architecture) -> None:
    """A checkpoint, and a directory of our own layout, give back the architecture and every bit, and name the plug-in."""
    from anyformer import checkpoint, huggingface
    from anyformer.describe import PLUGINS
    from anyformer.loading import load
    from anyformer.resolving import architecture as architecture_of

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


def can_be_drawn(architecture: Architecture) -> bool:
    """Whether pictures can be drawn here: matplotlib is an extra."""
    return find_spec("matplotlib") is not None


def learns_a_task(architecture: Architecture) -> bool:
    """Whether it is a decoder of tokens that can be trained on a generated task; others learn otherwise."""
    from anyformer.describe import DescriptionError
    from anyformer.testing.runs import run_on_copying

    try:
        run_on_copying(architecture)
    except DescriptionError:
        return False
    return True


def loss_falls_on_one_repeated_batch(architecture: Architecture) -> None:
    """Updates on one batch of a generated task lower its loss."""
    from anyformer.testing import runs

    runs.loss_falls_on_one_repeated_batch(runs.run_on_copying(architecture))


def killed_and_resumed_equals_never_interrupted(architecture: Architecture) -> None:
    """A run on a generated task that was killed ends, resumed, with the bits of one that was left alone."""
    from anyformer.testing import runs

    runs.killed_and_resumed_equals_never_interrupted(runs.run_on_copying(architecture))


CONTRACTS = (
    Contract(training_is_priced, needs=(built.declared_weights_are_the_parameters, built.forward_pass_is_computed)),
    Contract(diagram_is_drawn, can_be_drawn, (built.declared_weights_are_the_parameters,)),
    Contract(saved_and_exported_are_loaded_again, needs=(built.materialised_equals_built, built.description_survives_text)),
    Contract(loss_falls_on_one_repeated_batch, learns_a_task, last=True),
    Contract(killed_and_resumed_equals_never_interrupted, learns_a_task, last=True),
)
