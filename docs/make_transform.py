"""Fills in what `anyformer transform` prints in `docs/transform.md`: `python docs/make_transform.py`. A test holds the page to it.

The checkpoint that the page speaks of is a tiny GPT-2 whose weights are drawn by its own rules, over bytes.
"""

from __future__ import annotations

import contextlib
import re
import runpy
import tempfile
from pathlib import Path

PAGE = Path(__file__).with_name("transform.md")
OUTPUTS = runpy.run_path(str(Path(__file__).with_name("make_outputs.py")))


def page() -> str:
    """The page with every output as of now; its commands run one after the other."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        make_checkpoint(Path("checkpoint"))
        blocks: re.Pattern[str] = OUTPUTS["BLOCK"]
        return blocks.sub(OUTPUTS["block"], PAGE.read_text(encoding="utf-8"))


def make_checkpoint(place: Path) -> None:
    """A tiny GPT-2 over bytes."""
    import anyformer as af
    from anyformer import checkpoint
    from anyformer.data import Bytes
    from anyformer.data.vocabulary import make_tokenizer

    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    checkpoint.save(af.build(af.architecture("gpt2", tiny=True)), place, tokenizer=tokenizer)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
