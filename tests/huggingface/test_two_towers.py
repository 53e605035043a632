"""Both towers of CLIP and SigLIP at once: similarities, losses and gradients are transformers', and so is what is written."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from anyformer.describe import UserError, change_all
from anyformer.huggingface import export_two_towers, load_two_towers, read_two_towers
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.missing import TWO_TOWERS
from anyformer.operations import Shape

TEXTS, IMAGES, T, END = 3, 3, 9, 7
TEXT = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 9,
    "vocab_size": 50, "layer_norm_eps": 1e-3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": END,
}  # fmt: skip
IMAGE = {
    "hidden_size": 32, "intermediate_size": 36, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 12,
    "patch_size": 4, "layer_norm_eps": 1e-4,
}  # fmt: skip
TABLES = {
    "clip": {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 20, "logit_scale_init_value": 1.5},
    "siglip": {"text_config": TEXT | {"projection_size": 32}, "vision_config": IMAGE},
}
CLASSES = {
    "clip": (transformers.CLIPConfig, transformers.CLIPModel),
    "siglip": (transformers.SiglipConfig, transformers.SiglipModel),
}
PARAMETERS = {"clip": 151_277_313, "siglip": 203_155_970}


@pytest.fixture(scope="module", params=CLASSES)
def theirs(request):
    """A model of transformers whose weights are nowhere 0 or 1."""
    config, model = CLASSES[request.param]
    torch.manual_seed(0)
    made = model(config(**TABLES[request.param], attn_implementation="eager")).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made


@pytest.fixture(scope="module")
def directory(theirs, tmp_path_factory):
    path = tmp_path_factory.mktemp("towers") / theirs.config.model_type
    theirs.save_pretrained(path)
    return path


def batch():
    """Texts that end at different places, behind which stand other tokens, and images."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(8, 50, (TEXTS, T), generator=generator)
    for row, end in enumerate((8, 3, 5)):
        tokens[row, end:] = END
    return tokens, torch.randn(IMAGES, 3, 12, 12, dtype=torch.float64, generator=generator)


def test_similarities_losses_and_gradients_are_those_of_transformers(theirs, directory, tmp_path):
    tokens, images = batch()
    model, tokenizer = load_two_towers(directory)
    assert tokenizer is None
    assert sum(x.numel() for x in model.parameters()) == sum(x.numel() for x in theirs.parameters())
    expected = theirs(input_ids=tokens, pixel_values=images, return_loss=True)
    similar = model.double()(tokens, images)
    assert similar.shape == (TEXTS, IMAGES)
    torch.testing.assert_close(similar.double(), expected.logits_per_image.mT, atol=2e-5, rtol=1e-5)
    loss = model.loss(similar)
    torch.testing.assert_close(loss.double(), expected.loss, atol=1e-5, rtol=1e-5)
    theirs.zero_grad()
    expected.loss.backward()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad)
    export_two_towers(model, tmp_path / "gradients")  # by the names of transformers
    ours = load_file(tmp_path / "gradients" / "model.safetensors")
    wanted = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    assert ours.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(ours[name], gradient, atol=2e-5, rtol=1e-4, msg=lambda said, name=name: f"{name}: {said}")


def test_what_is_written_is_read_by_transformers_and_here(theirs, directory, tmp_path):
    model, _ = load_two_towers(directory)
    model_type = export_two_towers(model, tmp_path / "out")
    assert model_type == theirs.config.model_type
    again, info = CLASSES[model_type][1].from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert {name: x.shape for name, x in again.state_dict().items()} == {n: x.shape for n, x in theirs.state_dict().items()}
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    tokens, images = batch()
    given = again.double().eval()(input_ids=tokens, pixel_values=images).logits_per_text
    wanted = theirs(input_ids=tokens, pixel_values=images).logits_per_text
    torch.testing.assert_close(given, wanted, atol=1e-5, rtol=1e-5)
    assert load_two_towers(tmp_path / "out")[0].description == model.description


def test_buffers_of_older_files_are_passed_over_and_other_tensors_are_refused(theirs, directory, tmp_path):
    tensors = load_file(directory / "model.safetensors")
    for name, more, said in (
        ("older", {"text_model.embeddings.position_ids": torch.arange(T)[None]}, ""),
        ("foreign", {"audio_model.weight": torch.ones(2)}, "1 tensors belong to neither tower of .*audio_model.weight"),
        ("inside", {"vision_model.other.weight": torch.ones(2)}, "have no place in this .*other.weight"),
        ("several", {"logit_scale": torch.ones(2)}, r"logit_scale should be one number, got the shape \(2,\)"),
    ):
        made = tmp_path / name
        made.mkdir()
        (made / "config.json").write_bytes((directory / "config.json").read_bytes())
        save_file({**tensors, **more}, made / "model.safetensors", metadata={"format": "pt"})
        if not said:
            assert torch.equal(load_two_towers(made)[0].log_scale, theirs.logit_scale.reshape(1))
            continue
        with pytest.raises(UserError, match=said):
            load_two_towers(made)


@pytest.mark.parametrize("model_type", CLASSES)
def test_absent_keys_mean_what_they_mean_in_transformers(model_type):
    written = json.loads(CLASSES[model_type][0]().to_json_string(use_diff=False))
    assert {"text_config", "vision_config"} <= written.keys()
    keys = ("model_type", "text_config", "vision_config", "projection_dim", "logit_scale_init_value")
    told = read_two_towers(Config({key: written[key] for key in keys if key in written}))
    assert told == read_two_towers(Config({"model_type": model_type}))


def test_another_reader_names_this_one():
    assert set(TWO_TOWERS) == CLASSES.keys()
    for model_type in TWO_TOWERS:
        with pytest.raises(UserError, match="load_two_towers"):
            huggingface.family(model_type)


@pytest.mark.parametrize("model_type", CLASSES)
def test_published_sizes_have_as_many_parameters(model_type):
    towers = read_two_towers(Config({"model_type": model_type}))
    assert towers.cost(Shape(length=1), Shape(length=197)).parameters == PARAMETERS[model_type]
    with torch.device("meta"):
        assert sum(x.numel() for x in CLASSES[model_type][1](CLASSES[model_type][0]()).parameters()) == PARAMETERS[model_type]


def test_first_files_of_clip_are_read():
    """Their tables stand twice, say dropout of 0, and name an end that is none: the largest token ends a text."""
    old = {"text_config": {}, "text_config_dict": {"hidden_size": 768, "num_attention_heads": 12, "eos_token_id": 2}}
    towers = read_two_towers(
        Config({"model_type": "clip", **old, "vision_config": {"dropout": 0.0}, "vision_config_dict": None})
    )
    assert (towers.text.width, towers.end, towers.features) == (768, 49_407, 512)


def test_others_are_refused():
    with pytest.raises(UserError, match="no two towers that are compared, as clip and siglip"):
        read_two_towers(Config({"model_type": "gpt2"}))
    with pytest.raises(UserError, match="made_up"):
        read_two_towers(Config({"model_type": "clip", "made_up": 3}))
    with pytest.raises(UserError, match=r"text_config: .*made_up"):
        read_two_towers(Config({"model_type": "clip", "text_config": {"made_up": 3}}))
    with pytest.raises(UserError, match=r"text_config.eos_token_id = null should be the token"):
        read_two_towers(Config({"model_type": "clip", "text_config": {"eos_token_id": None}}))


BEYOND = {
    "clip": (
        ({"end": None}, "up to its end: set end"),
        ({"text.head.bias": True}, "than these towers: text"),
        ({"image.head.scale": 2.0}, "than these towers: image"),
        ({"bias": -1.0}, "SiglipModel of transformers"),
    ),
    "siglip": (
        ({"end": END}, "than these towers: end"),
        ({"text.head.pool": "mean"}, "than these towers: text"),
        ({"image.head.transform": {"bias": False}}, "than these towers: image"),
    ),
}


def test_what_no_class_of_transformers_computes_is_not_written(theirs, directory, tmp_path):
    model, _ = load_two_towers(directory)
    towers = model.description
    for changes, said in BEYOND[theirs.config.model_type]:
        model.description = change_all(towers, changes)
        with pytest.raises(MismatchError, match=said):
            export_two_towers(model, tmp_path / "out")
        assert not (tmp_path / "out").exists()
