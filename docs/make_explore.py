"""The twelve screenshots of docs/explore.md, in Debian's Chromium: `python docs/make_explore.py` renews them, `python
docs/make_explore.py FOLDER` writes them there in full colours. Runs are trained for two of them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.explorer import CHROMIUM, serving
from PIL import Image

import anyformer as af
from anyformer.catalogue.llama import llama
from anyformer.data import Bytes, Text
from anyformer.plan import Plan
from anyformer.studies import Arm, Study
from anyformer.training import Run

PICTURES = Path(__file__).parent / "pictures"
ATTENTION = "decoder.layer.attention"
PAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "part": (f"#of=llama-3-8b&part={ATTENTION}&set={ATTENTION}.kv_heads%3D4&on=h100&on=a100", {}),
    "beside": ("#of=llama-3-8b&of=qwen3-8b", {"height": 1180}),
    "dark": ("#of=gemma-3-27b&part=decoder.local.attention.mask", {"scheme": "dark"}),
    "experts": ("#of=deepseek-v3&part=decoder.routed.experts", {}),
    "recurrent": ("#of=qwen3-next-80b-a3b&part=decoder.linear.gated_delta_net", {"scheme": "dark"}),
    "two-inputs": ("#of=whisper-large-v3&part=decoder.layer.cross_attention", {}),
    "phone": ("#of=llama-3-8b&part=decoder.layer.feedforward", {"width": 390, "height": 1800}),
    "paper": ("#of=llama-3-8b", {"width": 900, "height": 1800, "media": "print"}),
    "search": ("#of=llama-3-8b", {"press": ("/", *"experts 2025")}),
    "refused": ("#of=lama-3-8b", {}),
    "runs": ("", {"runs": True, "height": 1050}),
    "study": ("", {"study": True}),
}
"""Twelve pages by their name: the hash, and how they are looked at."""
COLOURS = 160
"""Of a kept picture, whose file is small so."""
DRAWN = ".drawing, .refused, .runs table, #found li"


def run_of(place: Path, seed: int = 1) -> Run:
    """A small model of bytes."""
    return Run(
        seed=seed, steps=60, batch=4, length=64, data=Text(paths=(str(place / "text.txt"),), tokenizer=Bytes(), validation=0.1),
        architecture=llama(width=64, depth=2, heads=2, kv_heads=2, ffn=128, vocab=257, tied=True),
        plan=Plan(precision="fp32", compile="off"),
    )  # fmt: skip


def trained(place: Path) -> list[str]:
    """The directories of three runs that differ in their seed, and of a study."""
    (place / "text.txt").write_text("".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.md"))))
    seeds = (1, 2, 3)
    for seed in seeds:
        af.train(run_of(place, seed), place / f"seed-{seed}")
    arms = {"one_head": Arm(set=(f"{ATTENTION}.kv_heads=1",)), "gelu": Arm(set=("decoder.layer.feedforward.activation=gelu",))}
    af.compare(Study(title="Does one key head cost quality?", base=run_of(place), arms=arms, seeds=seeds), place / "study")
    return [*(str(place / f"seed-{seed}") for seed in seeds), str(place / "study")]


def take(browser: Any, address: str, name: str, folder: Path) -> Path:
    """The screenshot of a page."""
    hash, how = PAGES[name]
    page = browser.new_page(
        viewport={"width": how.get("width", 1440), "height": how.get("height", 900)}, color_scheme=how.get("scheme", "light")
    )
    page.set_default_timeout(120_000)
    page.goto(f"{address}/{hash}")
    page.wait_for_selector("#tool-undo")
    for text in [text for text, wanted in (("runs", "runs"), ("study", "study")) if wanted in how]:
        page.get_by_role("link", name=text, exact=True).click()
    page.wait_for_selector(DRAWN)
    page.wait_for_function("() => !document.querySelector('.pending') && !document.body.classList.contains('asking')")
    for key in how.get("press", ()):
        page.keyboard.press(key)
    page.emulate_media(media=how.get("media", "screen"))
    page.wait_for_timeout(500)
    page.screenshot(path=folder / f"explore-{name}.png")
    page.close()
    return folder / f"explore-{name}.png"


def main(folder: Path | None) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        place = Path(made)
        with serving(*trained(place), "llama-3-8b") as address:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for name in PAGES:
                path = take(browser, address, name, folder or PICTURES)
                if folder is None:
                    Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
                print(f"{path}: {path.stat().st_size:,} bytes")
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
