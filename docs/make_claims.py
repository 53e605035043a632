"""Writes docs/reference/claims.md from `benchmarks/claims` and its results: `python docs/make_claims.py`. A test compares."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.claims import CLAIMS, NOTES, TOPICS, Claim, Figures  # noqa: E402

PAGE = Path(__file__).with_name("reference") / "claims.md"
INTRODUCTION = """# The claims of the notes, executable

Every claim of the lecture notes ([notes.md](notes.md)) that can be counted or measured: the claim in plain words, the command that
tests it, the outcome, and a verdict. Verdicts are computed from the numbers by a rule beside the claim (`benchmarks/claims/`), never
written by hand; this page is written by `python docs/make_claims.py`, and a test computes it
again.

- **counted**: from the description, as `anyformer cost` counts; the same on every machine.
- **priced**: on an accelerator's published peaks, of which the cost sheet assumes shares; no CPU decides it.
- **measured**: on tensors, one thread, fixed seeds, by `python -m benchmarks.claims --write` into
  [claims.json](../../benchmarks/results/claims.json).
- **from results**: of another benchmark or study, which is linked.

"""
CITED = """A to D are the notes: {notes}.

"""


def tally() -> str:
    """How many claims hold."""
    verdicts = Counter("holds when" if " when " in verdict else verdict for verdict in map(verdict_of, CLAIMS.values()))
    ways = Counter(claim.how for claim in CLAIMS.values())
    told = ", ".join(f"{count} {way}" for way, count in ways.most_common())
    return (
        f"Of {len(CLAIMS)} claims ({told}) **{verdicts['holds']} hold**, **{verdicts['holds when']} hold under a condition** that "
        f"the notes do not state or state elsewhere, **{verdicts['does not hold']} do not hold**, and "
        f"of **{verdicts['cannot tell']}** one cannot tell from the results so far.\n\n"
    )


def verdict_of(claim: Claim) -> str:
    return claim.verdict(claim.known())


def row(claim: Claim) -> str:
    """A line of a table."""
    figures: Figures = claim.known()
    how = f"[{claim.how}]({os.path.relpath(ROOT / claim.file, PAGE.parent)})" if claim.file else claim.how
    cells = (
        f"{claim.sentence} ({claim.source})", f"{how}: `{claim.typed}`", claim.told(figures), f"**{claim.verdict(figures)}**"
    )  # fmt: skip
    assert not any("|" in cell for cell in cells), f"a bar would end a cell of {claim.name}"
    return f"| {' | '.join(cells)} |"


def lines() -> Iterator[str]:
    for topic in TOPICS:
        yield f"## {topic.title}\n"
        yield "| claim | command | outcome | verdict |\n|---|---|---|---|"
        yield from map(row, topic.claims)
        yield ""


def page() -> str:
    """The whole page."""
    cited = CITED.format(notes=", ".join(f'{letter} "{title}"' for letter, title in NOTES.items()))
    return INTRODUCTION + cited + tally() + "\n".join(lines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
