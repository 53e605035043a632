"""Names of models on a hub: read, written, and told apart from other forms."""

from __future__ import annotations

import pytest

from anyformer import catalogue
from anyformer.describe import UserError
from anyformer.hub import HubError, HubName, is_hub, looks_like_a_model, parsed, pinned

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAMES = {
    "hub:lab/model": HubName("lab/model"),
    "hub:gpt2": HubName("gpt2"),
    "hub:lab/Model-1.5_b@v1.0": HubName("lab/Model-1.5_b", None, "v1.0"),
    "hub:lab/model@refs/pr/3": HubName("lab/model", None, "refs/pr/3"),
    f"hub:lab/model@{COMMIT}": HubName("lab/model", None, COMMIT),
    "hub:lab/model/file-Q4_K.gguf": HubName("lab/model", "file-Q4_K.gguf"),
    "hub:lab/model/deep/file.gguf@main": HubName("lab/model", "deep/file.gguf", "main"),
}
MEANT = {
    "hub://lab/model": "hub:lab/model",
    "hf://lab/model": "hub:lab/model",
    "hf:lab/model@v1": "hub:lab/model@v1",
    "https://huggingface.co/lab/model": "hub:lab/model",
    "huggingface.co/lab/model/": "hub:lab/model",
    "https://huggingface.co/lab/model/tree/v2": "hub:lab/model@v2",
    "https://huggingface.co/lab/model/blob/main/a.gguf": "hub:lab/model/a.gguf@main",
    "hub:lab/model/tree/v2": "hub:lab/model@v2",
    "hub:lab/model:v2": "hub:lab/model@v2",
}
WRONG = {
    "hub:": "'' is no name on a hub",
    "hub:lab/": "'' is no name on a hub",
    "hub:la b/model": "'la b' is no name",
    "hub:../model": "'..' is no name",
    "hub:lab/a--b": "'a--b' is no name",
    "hub:lab/model@": "leave @ out for the main branch",
    "hub:lab/model@../x": "is no branch, tag or commit",
    "hub:lab/model/model.safetensors": "give hub:lab/model for the model",
    "hub:datasets/lab/data": "one of its datasets",
}


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_read_and_written(text):
    assert parsed(text) == NAMES[text]
    assert str(NAMES[text]) == text
    assert is_hub(text)
    assert parsed(text).commit == (COMMIT if COMMIT in text else None)


@pytest.mark.parametrize("text", MEANT)
def test_another_form_is_refused_with_the_name_that_is_meant(text):
    with pytest.raises(HubError, match="did you mean") as refused:
        parsed(text)
    assert str(refused.value).endswith(f"did you mean {MEANT[text]}?")
    assert str(parsed(MEANT[text])) == MEANT[text]


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_name_is_refused(text):
    with pytest.raises(HubError) as refused:
        parsed(text)
    assert WRONG[text] in str(refused.value)


def test_a_place_of_the_cache_is_named_by_its_commit():
    folder = f"/home/me/.cache/huggingface/hub/models--lab--model/snapshots/{COMMIT}"
    assert pinned(folder) == f"hub:lab/model@{COMMIT}"
    assert pinned(f"{folder}/deep/a.gguf") == f"hub:lab/model/deep/a.gguf@{COMMIT}"
    assert pinned(f"/x/models--gpt2/snapshots/{COMMIT}") == f"hub:gpt2@{COMMIT}"
    assert pinned("/home/me/models/lab/model") is None
    assert parsed(pinned(folder)).repo == "lab/model"


def test_a_bare_name_is_told_how_a_hub_is_asked():
    assert looks_like_a_model("lab/model")
    assert not looks_like_a_model("model")
    assert not looks_like_a_model("a/b/c")
    assert not looks_like_a_model("../model")
    with pytest.raises(UserError, match="a model of a hub is named hub:lab/model"):
        catalogue.architecture("lab/model")
