"""Contracts of families of Hugging Face models, each of one tiny configuration with its `model_type`."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer import huggingface
from anyformer.huggingface import Config, HuggingFaceError
from anyformer.huggingface.files import Stored
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.parts import Initialisation
from anyformer.testing.around import LOUD
from anyformer.testing.inputs import tokens

Table = Mapping[str, Any]
Reference = Callable[[Table, Mapping[str, Tensor], Tensor], Tensor]
"""(configuration, stored tensors by name, tokens (B, T)) -> logits (B, T, V)."""
UNKNOWN = "frobnication_factor"
TOLERANCE = 2e-5
"""Largest difference of logits, of the largest, in fp32."""


def architecture_of(table: Table) -> Architecture:
    """The architecture of a configuration, with weights so loud that every part leaves a trace."""
    return huggingface.read_architecture(Config(table))[0].but(initialisation=LOUD)


def configuration_there_and_back(table: Table) -> None:
    """The architecture of a configuration is written as one that is read as the same architecture."""
    architecture, family = huggingface.read_architecture(Config(table))
    written = family.write(architecture)
    again = family.read(Config({**written, "model_type": family.model_type}))
    lost = sorted(table.keys() - written.keys())
    plain = Initialisation()
    assert again.but(initialisation=plain) == architecture.but(initialisation=plain), (
        f"keys that were not written (has each a place, in huggingface/places.py or where it is read?): {lost}"
    )


def unknown_key_is_refused_by_name(table: Table) -> None:
    """A key that the family does not read, and does not declare inert, is refused."""
    said = None
    try:
        huggingface.read_architecture(Config({**table, UNKNOWN: 3}))
    except HuggingFaceError as error:
        said = str(error)
    assert said is not None, f"{UNKNOWN} = 3 in a configuration is passed over"
    assert UNKNOWN in said, f"the error does not name the key: {said}"


def exported_weights_are_loaded_again(table: Table) -> None:
    """A model written under this model type is read again with the same architecture and the same bits."""
    with tempfile.TemporaryDirectory(prefix="anyformer-check-") as place:
        model = _exported(table, Path(place) / "exported")
        again, _ = huggingface.load(Path(place) / "exported")
        theirs = dict(again.named_parameters())
        assert theirs.keys() == dict(model.named_parameters()).keys()
        for name, weight in model.named_parameters():
            assert torch.equal(weight, theirs[name]), f"{name} is read with other values than were written"


def logits_are_those_of_transformers(table: Table) -> None:
    """The logits of a written model are those that transformers computes from its files."""
    with tempfile.TemporaryDirectory(prefix="anyformer-check-") as place:
        _exported(table, Path(place) / "exported")
        verdict = huggingface.verify(Path(place) / "exported", length=13)
        where, gap = verdict.drifts[-1].where, verdict.drifts[-1].difference
        assert verdict.agrees, f"{where} differ by {gap:.1e}, the first to drift is {verdict.first_drift}"


def logits_are_those_of_its_reference(table: Table, reference: Reference) -> None:
    """The logits of a written model are those that the reference computes from its files."""
    with tempfile.TemporaryDirectory(prefix="anyformer-check-") as place:
        directory = Path(place) / "exported"
        model = _exported(table, directory)
        stored, x = Stored(directory), tokens(model.architecture)
        with torch.no_grad():
            ours = model(x)
            theirs = reference(table, {name: stored.tensor(name) for name in stored.files}, x)
        assert ours.shape == theirs.shape, f"ours have shape {tuple(ours.shape)}, the reference's {tuple(theirs.shape)}"
        gap = float((ours - theirs).abs().max() / theirs.abs().max())
        assert gap <= TOLERANCE, f"logits differ by {gap:.1e} of the largest"


def in_transformers(model_type: str) -> bool:
    """Whether transformers is installed and has a model type."""
    if importlib.util.find_spec("transformers") is None:
        return False
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES


def _exported(table: Table, directory: Path) -> Transformer:
    """A model of the configuration, none of whose weights is at a neutral value, written under its model type."""
    model = build(architecture_of(table), seed=1).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    huggingface.export(model, directory, model_type=str(table["model_type"]))
    return model


CONTRACTS: tuple[Callable[[Table], None], ...] = (
    configuration_there_and_back,
    unknown_key_is_refused_by_name,
    exported_weights_are_loaded_again,
)
NEEDS: Mapping[str, tuple[Callable[[Table], None], ...]] = {
    exported_weights_are_loaded_again.__name__: (configuration_there_and_back,),
    logits_are_those_of_transformers.__name__: (exported_weights_are_loaded_again,),
    logits_are_those_of_its_reference.__name__: (exported_weights_are_loaded_again,),
}
"""Contract -> those that it presupposes, beside every contract of the parts of a plug-in that stand in the model."""
