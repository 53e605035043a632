"""Stored tables that follow from a formula: the right one is passed by, any other refused by name."""

from __future__ import annotations

import shutil
from itertools import product

import pytest
import torch
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from covering import covering, rest_slow
from huggingface.cases import CASES
from huggingface.parity import pair

SINUSOIDS = {
    "pegasus": "model.encoder.embed_positions.weight",
    "marian": "model.decoder.embed_positions.weight",
    "m2m_100": "model.encoder.embed_positions.weights",
    "fsmt": "model.decoder.embed_positions.weight",
    "speech_to_text": "model.encoder.embed_positions.weights",
    "whisper": "model.encoder.embed_positions.weight",
    "xglm": "model.embed_positions.weights",
    "ctrl": "transformer.pos_encoding",
}
INCLUSIVE = ("m2m_100", "fsmt", "speech_to_text", "xglm", "whisper")
"""Whose slowest wave is exactly 1 / 10000."""
NUMBERS = [torch.float32, torch.bfloat16]


def sinusoids(both, length: int = 11) -> torch.Tensor:
    """sin and then cos of t * 10000^(-2i / n), written here once more; fairseq's row of the padding is zeros."""
    model_type, width = both.case.model_type, both.ours.architecture.width
    span = width - 2 if model_type in INCLUSIVE else width
    angle = torch.arange(length).double()[:, None] * 10_000 ** (-2 * torch.arange(width // 2).double() / span)
    table = torch.cat([angle.sin(), angle.cos()], 1)
    if model_type in INCLUSIVE[:4]:
        table[1 if model_type == "xglm" else both.theirs.config.pad_token_id] = 0
    return table


def saved_with(case, name, table, place):
    """A saved model with a table among its tensors."""
    shutil.copytree(pair(case).directory, place)
    tensors = load_file(place / "model.safetensors") | {name: table.contiguous()}
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    return place


@pytest.mark.parametrize(
    ("model_type", "number"), rest_slow(product(SINUSOIDS, NUMBERS), covering(SINUSOIDS, NUMBERS, together=1)), ids=str
)
def test_sinusoids_are_compared(model_type, number, tmp_path):
    name = SINUSOIDS[model_type]
    case = next(case for case in CASES if case.model_type == model_type)
    table = sinusoids(pair(case)).to(number)
    assert huggingface.load(saved_with(case, name, table, tmp_path / "right"))
    for i, wrong in enumerate((table.flip(0), table.flip(1), table * 1.1)):
        place = saved_with(case, name, wrong, tmp_path / f"wrong_{i}")
        with pytest.raises(huggingface.HuggingFaceError, match=rf"{name} is computed here.* differs from it by up to [0-9.]+:"):
            huggingface.load(place)


TURNING = ("llama", "gpt_neox", "esm")


@pytest.mark.parametrize(
    ("model_type", "number"), rest_slow(product(TURNING, NUMBERS), covering(TURNING, NUMBERS, together=1)), ids=str
)
def test_frequencies_of_rotary_positions_are_compared(model_type, number, tmp_path):
    for case in (case for case in CASES if case.model_type == model_type):
        architecture = pair(case).ours.architecture
        heads = architecture.output_stack.variants["layer"].branches["attention"].sublayer
        if "rotary" not in heads.place or heads.place["rotary"].scaling is not None:
            continue
        n = heads.place["rotary"].rotated(heads.width_of_head(architecture.width))
        table, name = heads.place["rotary"].theta ** (-torch.arange(0, n, 2).double() / n), "layers.0.rotary_emb.inv_freq"
        place = tmp_path / str(case)
        assert huggingface.load(saved_with(case, name, table.to(number), place / "right"))
        saved_with(case, name, (table * 1.1).to(number), place / "wrong")
        with pytest.raises(huggingface.HuggingFaceError, match=rf"{name} is computed here.* of a value"):
            huggingface.load(place / "wrong")
