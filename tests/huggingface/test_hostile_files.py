"""Files of a Hugging Face directory that are not what they say: indices, headers and configurations of the wrong kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from zoo import ZOO

from anyformer import huggingface
from anyformer.describe import change
from anyformer.huggingface import HuggingFaceError
from anyformer.model.transformer import build
from anyformer.precision.finite import AT_ONCE, check_finite


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile")
    for name in ("llama", "gpt2"):
        huggingface.export(build(ZOO[name], seed=0), place / name)
        (place / name / "digests.json").unlink()  # as directories come from elsewhere
    return place


@pytest.fixture
def directory(whole, tmp_path):
    def copied(name="llama"):
        for path in (whole / name).iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        return tmp_path

    return copied


@pytest.mark.parametrize(
    "text", ["5", "[]", "null", "[" * 30_000, '{"a":' * 30_000, "9" * 5000, '{"model_type": 1, "model_type": 2}', ""]
)
@pytest.mark.parametrize("file", ["config.json", "model.safetensors.index.json"])
def test_a_file_that_holds_no_table(directory, file, text):
    place = directory()
    if file != "config.json":
        (place / "model.safetensors").rename(place / "all.safetensors")
    (place / file).write_text(text)
    with pytest.raises(HuggingFaceError, match=rf"(?s){file}.{{4,200}}\Z"):
        huggingface.load(place)


@pytest.mark.parametrize(
    ("map_", "words"),
    [
        (None, "weight_map should be a table"),
        ([], "weight_map should be a table"),
        ({"a": 5}, "weight_map should be a table"),
        ({"a": "../x.safetensors"}, "names files outside the directory"),
        ({"a": "x" * 5000}, "names files that are not there"),
        ({"a": "config.json"}, "1 tensors have no place"),
        ({"model.norm.weight": "other.safetensors"}, "has no tensor lm_head.weight, the head"),
    ],
)
def test_an_index_that_is_none(directory, map_, words):
    place = directory()
    known = dict.fromkeys(load_file(place / "model.safetensors"), "all.safetensors")
    (place / "model.safetensors").rename(place / "all.safetensors")
    save_file({"b": torch.zeros(1)}, place / "other.safetensors")
    told = {**known, **map_} if map_ and "a" in map_ else map_
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": told}))
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(place)


def test_an_index_that_names_the_wrong_file(directory):
    place = directory()
    known = dict.fromkeys(load_file(place / "model.safetensors"), "all.safetensors")
    (place / "model.safetensors").rename(place / "all.safetensors")
    save_file({"b": torch.zeros(1)}, place / "other.safetensors")
    for name in ("model.norm.weight", "lm_head.weight", "model.embed_tokens.weight"):
        (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {**known, name: "other.safetensors"}}))
        with pytest.raises(HuggingFaceError, match=rf"other\.safetensors: {name} is not in it, although the index says so"):
            huggingface.load(place)


@pytest.mark.parametrize(("number", "said"), [(torch.int32, "int32"), (torch.uint8, "uint8"), (torch.int64, "int64")])
def test_a_weight_that_is_declared_whole(directory, number, said):
    place = directory()
    tensors = load_file(place / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(number)
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        HuggingFaceError, match=f"model.norm.weight is stored as {said}, and a weight is a floating-point number"
    ):
        huggingface.load(place)


def test_a_tensor_of_a_shape_that_cannot_be_cut(directory):
    place = directory("gpt2")
    tensors = load_file(place / "model.safetensors")
    name = next(name for name in tensors if name.endswith("c_attn.weight"))
    for shape in ((7,), (7, 5), (2, 2, 2)):
        tensors[name] = torch.zeros(shape)
        save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(HuggingFaceError, match=r"c_attn\.weight"):
            huggingface.load(place)


def test_a_directory_without_the_embedding(directory):
    place = directory()
    tensors = load_file(place / "model.safetensors")
    for name in ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"):
        left = {key: value for key, value in tensors.items() if key != name}
        save_file(left | {"x" * 60: torch.zeros(1)}, place / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(HuggingFaceError, match="tensor"):
            huggingface.load(place)


def test_a_directory_whose_name_no_file_can_have():
    with pytest.raises(HuggingFaceError, match=r"has no config\.json"):
        huggingface.read_config(Path("x" * 5000))


def test_the_whole_directories_load(whole):
    for name in ("llama", "gpt2"):
        model, _ = huggingface.load(whole / name)
        assert change(model.architecture, "width", model.architecture.width) == model.architecture


def spoilt(place, name, value):
    tensors = load_file(place / "model.safetensors")
    tensors[name].view(-1)[-1] = value
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_weight_that_is_not_finite_is_named(directory, value, dtype):
    """Such a model generated NULs with exit 0, and was exported, imported and quantised without a word."""
    place, name = directory(), "model.layers.0.mlp.up_proj.weight"
    tensors = {key: x.to(dtype) for key, x in load_file(place / "model.safetensors").items()}
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    huggingface.load(place)
    spoilt(place, name, value)
    with pytest.raises(HuggingFaceError, match=rf"model\.safetensors: {name}: not finite, 1 of [\d,]+ numbers.* {value} at"):
        huggingface.load(place)


def test_a_whole_number_type_and_the_largest_numbers_are_finite():
    limits = torch.finfo(torch.float16)
    for fine in (torch.tensor([limits.min, limits.max]).half().repeat(10), torch.tensor([2**62]), torch.empty(0)):
        check_finite(fine, "", HuggingFaceError)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_a_number_of_eight_bits_that_is_none_is_found_beyond_the_first_piece(dtype):
    codes = torch.zeros(AT_ONCE + 8).to(dtype)
    check_finite(codes, "", HuggingFaceError)
    codes[-1] = torch.nan
    with pytest.raises(HuggingFaceError, match=r"x: not finite, 1 of 1,048,584 numbers, the first nan at \[1048583\]"):
        check_finite(codes, "x", HuggingFaceError)
