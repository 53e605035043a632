"""The published validation loss of nanoGPT's CPU configuration is reached. Slow; needs the text, see benchmarks/nanogpt.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.console import Console

from anyformer.training import train

DEFAULT = Path(__file__).parents[3] / "shared" / "data" / "tinyshakespeare.txt"
TEXT = Path(os.environ.get("TINYSHAKESPEARE", DEFAULT))


@pytest.mark.slow
@pytest.mark.skipif(not TEXT.is_file(), reason="set TINYSHAKESPEARE to the path of tinyshakespeare.txt")
@pytest.mark.parametrize("name", ["nanoGPT", "Llama-style"])
def test_the_published_loss_is_reached(name, tmp_path):
    from benchmarks.nanogpt import MODELS, PUBLISHED, run_of

    trained = train(run_of(MODELS[name], str(TEXT), seed=0), tmp_path / "run", console=Console(quiet=True))
    assert trained.validation.loss <= PUBLISHED
