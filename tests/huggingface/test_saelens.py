"""SAELens's layout: what its formulas make of the files that are written, and files read again."""

from __future__ import annotations

import json

import pytest
import torch
from benchmarks import opening
from safetensors.torch import load_file

import anyformer as af
from anyformer import build
from anyformer.huggingface.saelens import SAELensError, export_saelens, load_saelens, saelens_paths
from anyformer.model import dictionary_alone
from anyformer.model.hooks import OF_LAYER, OF_MODEL, hook_of, path_of
from anyformer.parts import BatchTopKCode, Dictionary, GatedCode, JumpReLUCode, MeanLength, Revival, TopKCode

WIDTH, FEATURES = 12, 20
PARTS = {
    "standard": Dictionary(features=FEATURES, length=MeanLength()),
    "topk": Dictionary(features=FEATURES, code=TopKCode(k=4), unit=True, length=MeanLength(), revival=Revival()),
    "jumprelu": Dictionary(features=FEATURES, code=JumpReLUCode(threshold=0.2), blocks=2, length=MeanLength()),
    "jumprelu of a batch": Dictionary(features=FEATURES, code=BatchTopKCode(k=4.0, momentum=1.0)),
    "gated": Dictionary(features=FEATURES, code=GatedCode()),
    "transcoder": Dictionary(features=FEATURES, centred=False, detached=True),
    "jumprelu_transcoder": Dictionary(features=FEATURES, code=JumpReLUCode(), centred=False, detached=True),
}


def vectors():
    return torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(1)) * 3 + 1


def trained(part):
    """A model whose every weight differs from its first value."""
    model = build(dictionary_alone(part, WIDTH, 1.0), seed=2).train()
    draws = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight += 0.3 * torch.randn(weight.shape, generator=draws)
        model(vectors())
    return model.eval()


def theirs(directory, x):
    """SAELens's formulas (saes/*.py) on the files."""
    config, w = json.loads((directory / "cfg.json").read_text()), load_file(directory / "sae_weights.safetensors")
    x = x - w["b_dec"] if config["apply_b_dec_to_input"] else x
    z = x @ w["W_enc"] + w.get("b_enc", 0)
    if config["architecture"] == "gated":
        active = (z + w["b_gate"] > 0) * (x @ (w["W_enc"] * w["r_mag"].exp()) + w["b_mag"]).relu()
    elif config["architecture"] == "topk":
        best = z.topk(config["k"], dim=-1)
        active = torch.zeros_like(z).scatter(-1, best.indices, best.values.relu())
    else:
        active = z.relu() * (z > w["threshold"] if "threshold" in w else 1)
    return active @ w["W_dec"] + w["b_dec"]


@pytest.mark.parametrize("name", PARTS)
@torch.no_grad()
def test_both_make_the_same_of_what_is_written(name, tmp_path):
    model, place = trained(PARTS[name]), tmp_path / "sae"
    assert export_saelens(model, place) == name.split()[0]
    torch.testing.assert_close(theirs(place, vectors()), model(vectors()), rtol=1e-5, atol=2e-5)
    read, _ = af.load(place)
    torch.testing.assert_close(read(vectors()), model(vectors()), rtol=1e-5, atol=2e-5)
    assert af.architecture(place) == read.architecture


@torch.no_grad()
def test_lengths_of_vectors_that_choose_features_go_into_the_weights(tmp_path):
    """`rescale_acts_by_decoder_norm`, of training: pre-activations count times the length of their vectors."""
    part = Dictionary(features=FEATURES, code=TopKCode(k=4))
    export_saelens(trained(part), tmp_path / "sae")
    file = tmp_path / "sae" / "cfg.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "rescale_acts_by_decoder_norm": True}))
    w = load_file(tmp_path / "sae" / "sae_weights.safetensors")
    lengths = w["W_dec"].norm(dim=1)
    z = ((vectors() - w["b_dec"]) @ w["W_enc"] + w["b_enc"]) * lengths
    best = z.topk(4, dim=-1)
    active = torch.zeros_like(z).scatter(-1, best.indices, best.values.relu())
    expected = active / lengths @ w["W_dec"] + w["b_dec"]
    torch.testing.assert_close(load_saelens(tmp_path / "sae")(vectors()), expected, rtol=1e-5, atol=1e-5)


def test_how_often_features_are_active_stands_beside(tmp_path):
    shares = torch.tensor([0.0, *[0.01] * (FEATURES - 1)])
    export_saelens(trained(PARTS["standard"]), tmp_path / "sae", frequencies=shares, metadata={"hook_name": "here"})
    found = load_file(tmp_path / "sae" / "sparsity.safetensors")["sparsity"]
    torch.testing.assert_close(found, torch.tensor([-10.0, *[-2.0] * (FEATURES - 1)]))
    assert json.loads((tmp_path / "sae" / "cfg.json").read_text())["metadata"]["hook_name"] == "here"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architecture": "batchtopk"}, "save_inference_model"),
        ({"normalize_activations": "layer_norm"}, "'layer_norm' cannot be read here: no weights do the same"),
        ({"normalize_activations": "expected_average_only_in"}, "fold it into the weights"),
        ({"finetuning": True}, "finetuning says something that is not known here"),
        ({"d_out": 9}, "a dictionary gives as many"),
        ({"d_sae": 7}, "has the shape"),
        ({"architecture": "jumprelu"}, "expected .*threshold"),
    ],
)
def test_what_is_not_read_is_refused(changes, words, tmp_path):
    export_saelens(trained(PARTS["standard"]), tmp_path / "sae")
    file = tmp_path / "sae" / "cfg.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(SAELensError, match=words):
        load_saelens(tmp_path / "sae")


def test_what_saelens_has_no_name_for_is_refused(tmp_path):
    gated = Dictionary(features=FEATURES, code=GatedCode(), centred=False)
    with pytest.raises(SAELensError, match="no transcoder whose code is 'gated'"):
        export_saelens(trained(gated), tmp_path / "sae")
    with pytest.raises(SAELensError, match="one sparse dictionary alone"):
        export_saelens(build(af.architecture("llama-2-7b", tiny=True)), tmp_path / "sae")


def test_hooks_are_those_whose_values_were_compared_and_name_the_path_again():
    """`benchmarks/opening.py` holds the values of these hooks to those of these paths."""
    assert all(opening.OF_MODEL[hook] == path for path, hook in OF_MODEL.items())
    assert all(opening.OF_BLOCK[hook] == path for path, hook in OF_LAYER.items())
    for path in (*OF_MODEL, *(f"decoder.layer[11].{name}" for name in OF_LAYER)):
        assert path_of(hook_of(path)) == path
        assert "layer" not in hook_of(path)
    assert hook_of("decoder.layer[1].output") == "blocks.1.hook_resid_post"
    assert hook_of("encoder.layer[1].output") == "encoder.layer[1].output"
    assert path_of("blocks.1.mlp.hook_pre") is None


@pytest.mark.parametrize(
    ("metadata", "read", "written"),
    [
        ({"hook_name": "blocks.1.attn.hook_z"}, "decoder.layer[1].attention.heads", "decoder.layer[1].attention.heads"),
        (
            {"hook_name": "blocks.0.hook_resid_mid", "hook_name_out": "blocks.0.hook_mlp_out"},
            "decoder.layer[0].attention.after", "decoder.layer[0].feedforward.output",
        ),
        ({"hook_name": "blocks.0.hook_resid_pre", "paths": ["own"]}, "own", "own"),
        ({"hook_name": "unknown", "paths": ["own"], "paths_out": ["other"]}, "own", "other"),
    ],
)  # fmt: skip
def test_where_it_was_learnt_is_ours_of_the_metadata_else_that_of_its_hook(metadata, read, written, tmp_path):
    export_saelens(trained(PARTS["standard"]), tmp_path / "sae", metadata=metadata)
    assert saelens_paths(tmp_path / "sae") == ((read,), (written,))
    of_heads = metadata["hook_name"].endswith("hook_z")
    config = json.loads((tmp_path / "sae" / "cfg.json").read_text())
    assert config["reshape_activations"] == ("hook_z" if of_heads else "none")
    assert af.load(tmp_path / "sae")


@pytest.mark.parametrize("metadata", [{}, {"hook_name": "blocks.0.mlp.hook_pre"}, {"hook_name": "embed"}])
def test_a_hook_without_a_path_is_refused(metadata, tmp_path):
    export_saelens(trained(PARTS["standard"]), tmp_path / "sae", metadata=metadata)
    with pytest.raises(SAELensError, match="no hook of TransformerLens"):
        saelens_paths(tmp_path / "sae")
