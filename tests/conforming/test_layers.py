"""Hidden states of an engine beside the model's: the first layer that is wrong is named."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from anyformer.conforming import LayersFileError
from anyformer.conforming.layers import _states, layer_gaps
from conforming.engines import built, described

TOKENS = torch.arange(3, 20)


@pytest.fixture(scope="module")
def model():
    return built(described(**{"decoder.order": "local global local"}))


def written(path, model, tokens=TOKENS):
    states = {f"layers.{layer}": state.clone() for layer, state in _states(model, tokens).items()}
    save_file({"tokens": tokens, **states}, path)
    return path


def test_the_first_wrong_layer_is_named(model, tmp_path):
    right = layer_gaps(written(tmp_path / "right.safetensors", model), model)
    assert [(gap.layer, gap.departs) for gap in right] == [(0, False), (1, False), (2, False)]
    wrong = built(model.architecture, model)
    with torch.no_grad():
        next(parameter for name, parameter in wrong.named_parameters() if "layers.1." in name and "norm" in name).add_(0.38)
    found = layer_gaps(written(tmp_path / "wrong.safetensors", wrong), model)
    assert [gap.departs for gap in found] == [False, True, True]


def test_rounding_is_measured(model, tmp_path):
    narrow = built(model.architecture, model).to(torch.bfloat16)
    path = written(tmp_path / "narrow.safetensors", narrow)
    assert any(gap.departs for gap in layer_gaps(path, model))
    assert not any(gap.departs for gap in layer_gaps(path, model, narrow))


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"tokens": TOKENS}, "holds tokens; give a safetensors file with tokens"),
        ({"layers.0": torch.zeros(17, 16)}, "holds layers.0; give a safetensors file with tokens"),
        ({"tokens": TOKENS, "layers.7": torch.zeros(17, 16)}, "the model has 3 layers, numbered from 0"),
        ({"tokens": TOKENS, "layers.1": torch.zeros(17, 15)}, r"layers.1 is \(17, 15\), and the model's is \(17, 16\)"),
    ],
)
def test_what_is_no_such_file_is_refused(held, said, model, tmp_path):
    save_file(held, tmp_path / "states.safetensors")
    with pytest.raises(LayersFileError, match=said):
        layer_gaps(tmp_path / "states.safetensors", model)


def test_a_file_that_is_damaged_is_refused(model, tmp_path):
    (tmp_path / "states.safetensors").write_bytes(b"no")
    with pytest.raises(LayersFileError, match="cannot be read"):
        layer_gaps(tmp_path / "states.safetensors", model)
