"""Fills in `docs/reference/study.md`, every key of a study, and the committed study of norms in `docs/compare.md`.

python docs/make_compare.py
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from page_text import filled, write

from anyformer.studies import Study

DOCS = Path(__file__).parent
GUIDE = DOCS / "compare.md"
KEYS = DOCS / "reference" / "study.md"
NORMS = DOCS / "studies" / "norms"
WORDS = {
    "see [architectures](../architectures.md) | `Named()`": "tables by name | none",
    "list of one of several kinds": "list of number",
}
"""What the tables of a run say of kinds of values that it does not have."""
MAKE_TRAIN = runpy.run_path(str(DOCS / "make_train.py"))


def pages() -> dict[Path, str]:
    """Both pages as of today."""
    return filled((GUIDE, KEYS), {"norms": norms(), "keys": keys()})


def keys() -> str:
    """A table of the study, then one of each of its parts; runs and architectures have guides of their own."""
    elsewhere = ("base", "arms.run", "architecture", "staircase.to")
    sections = dict.fromkeys((name, kind) for name, kind in MAKE_TRAIN["sections"]("", Study) if not name.startswith(elsewhere))
    lines = [line for name, kind in sections for line in MAKE_TRAIN["table"](name, kind)]
    text = "\n".join(lines).replace("### The run\n", "### The study\n", 1) + "\n"
    for said, better in WORDS.items():
        text = text.replace(said, better)
    return text


def norms() -> str:
    """What the committed study says."""
    found = json.loads((NORMS / "report.json").read_text(encoding="utf-8"))
    base, arm = found["arms"]
    (compared,) = found["comparisons"]
    between = compared["interval"]
    wins = sum(difference < 0 for difference in compared["differences"])
    losses = {each["name"]: ", ".join(f"{number:.2f}" for number in each["numbers"].values()) for each in (base, arm)}
    needed = f"about {compared['needed']} seeds" if compared["needed"] else "more than 1,000 seeds"
    told = f", which {needed} would change" if compared["verdict"] == "cannot tell" else ""
    return (
        f"[The report](studies/norms/report.md) ([as a page](studies/norms/report.html)) of `recipes/studies/norms.toml`: without "
        f"warm-up, pre-norm was best at a\nlearning rate of {base['value']:g} and post-norm at {arm['value']:g}, by the mean of "
        f"{len(found['study']['tuning']['seeds'])} seeds that are not compared. Verdict on post-norm: **{compared['verdict']}**{told}:\n"
        f"{between['value']:+.3f} nats per byte ({between['low']:+.3f} to {between['high']:+.3f}), lower with {wins} of "
        f"{len(compared['differences'])} seeds. Its losses are {losses['post_norm']};\nthose of pre-norm {losses['pre_norm']}.\n\n"
        "![The difference, with its interval and all pairs of seeds](studies/norms/differences.svg)\n\n"
        "![Loss at every learning rate](studies/norms/sensitivity.svg)\n"
    )


if __name__ == "__main__":
    write(pages())
