"""Draw the diagrams of `docs/pictures`: `python docs/make_pictures.py`. The same descriptions give the same bytes."""

from __future__ import annotations

from pathlib import Path

from anyformer.cli.titles import titled
from anyformer.pictures import draw_diagram
from anyformer.resolving import architecture

PICTURES = Path(__file__).with_name("pictures")
DIAGRAMS = {
    "gpt2.svg": ["gpt2"],
    "llama-3-8b.svg": ["llama-3-8b"],
    "gemma-3-27b.svg": ["gemma-3-27b"],
    "deepseek-v3.svg": ["deepseek-v3"],
    "qwen3-next-80b-a3b.svg": ["qwen3-next-80b-a3b"],
    "t5-11b.svg": ["t5-11b"],
    "llama-3-8b-and-qwen3-8b.svg": ["llama-3-8b", "qwen3-8b"],
}
"""File -> the architectures that it shows, side by side if several."""


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for file, names in DIAGRAMS.items():
        draw_diagram({titled(name): architecture(name) for name in names}, PICTURES / file)


if __name__ == "__main__":
    main()
