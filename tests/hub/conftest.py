"""A hub on this machine, which the library asks in the place of Hugging Face's, and a cache of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from hub_server import Hub, serving


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving() as made:
        monkeypatch.setattr(constants, "ENDPOINT", made.address)
        monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", made.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", made.address + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("time.sleep", lambda seconds: None)  # the library waits before it asks again
        monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield made


@pytest.fixture
def asked_by_others(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers, which keeps the address that it asked first, asks this hub too."""
    monkeypatch.setattr("transformers.utils.hub._hf_api", None)
