"""Of a GGUF file on a hub its beginning says what the architecture is."""

from __future__ import annotations

import pytest

import anyformer as af
from anyformer import hub as hubs
from anyformer.hub import HubError, heads
from huggingface.test_gguf import write

NAME = "hub:lab/model/a.gguf"


@pytest.fixture
def whole(hub, tmp_path):
    path = write(tmp_path / "a.gguf", "qwen2")
    hub.add("lab/model", {"a.gguf": path.read_bytes()})
    return path


def test_the_beginning_is_fetched_once_and_says_the_architecture(hub, whole, monkeypatch):
    monkeypatch.setattr(heads, "BYTES", 20_000)
    assert whole.stat().st_size > 40_000
    assert af.architecture(NAME) == af.architecture(whole)
    assert hub.sent == 20_000
    assert hubs.head(NAME).stat().st_size == whole.stat().st_size
    assert hub.sent == 20_000


def test_the_whole_is_read_where_the_beginning_is_too_short(hub, whole, monkeypatch):
    monkeypatch.setattr(heads, "BYTES", 100)
    assert af.architecture(NAME) == af.architecture(whole)
    assert af.load(NAME)[0].architecture == af.architecture(whole)
    assert hubs.head(NAME).read_bytes() == whole.read_bytes(), "the cache has the whole"


def test_a_file_that_is_not_there_is_said(hub, whole):
    with pytest.raises(HubError, match=r"the model has no file b.gguf; its GGUF files are a.gguf"):
        af.architecture("hub:lab/model/b.gguf")
