"""Fills in the figures of docs/preferences.md from benchmarks/results/rewards.json and aligning.json:
`python docs/make_preferences.py`.

A test holds the page to both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from page_text import filled, prose, table, write

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "preferences.md",)
RESULTS = ROOT / "benchmarks" / "results"
ARMS = {
    "start": "the model that all start from", "grpo": "`grpo`", "dapo": "`dapo`", "rloo": "`rloo`", "gspo": "`gspo`",
    "ppo": "`ppo`", "rejection": "rejection sampling (`expert_iteration`)", "fine-tuning": "more examples of right sums",
}  # fmt: skip
MODELS = {
    "answers": "1. words at random, from examples", "dpo": "2. DPO, from pairs", "kto": "3. KTO, from judgements",
    "policy": "5. GRPO, by the reward model",
}  # fmt: skip


def percent(value: float) -> str:
    """A share in words; ends of intervals may lie beyond 0 and 1."""
    return f"{100 * min(1.0, max(0.0, value)):.1f}"


def between(ends: Sequence[float] | None, digits: int | None = None) -> str:
    """An interval, of shares unless `digits` are given."""
    if ends is None:
        return ""
    low, high = (percent(end) if digits is None else f"{end:.{digits}f}" for end in ends)
    return f"{low} to {high}"


def sums(record: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Every arm: its seeds, their mean and interval, and when they had 90 %."""
    for name, words in ARMS.items():
        if (arm := record["arms"].get(name)) is not None:
            first = ", ".join("never" if minutes is None else f"{minutes:.1f}" for minutes in arm["minutes to 90 %"])
            yield (
                words, ", ".join(map(percent, arm["seeds"])), percent(arm["right"]), between(arm["interval"]),
                "" if name == "start" else first, ", ".join(f"{updates:,}" for updates in arm["updates"]),
            )  # fmt: skip


def asked(record: Mapping[str, Any]) -> str:
    """How the table of sums was made."""
    return (
        f"Right sums of {record['asked']['minutes']:g} minutes of one core each, in % of held-out ones, for the seeds 0, 1 and "
        "2 (`python -m benchmarks.rewards`; 95 % intervals of Student's t, so of three seeds wide):"
    )


def walks(record: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Every model of the walks: how many of its words fit, and its loss of random answers."""
    for name, words in MODELS.items():
        fits, loss = record["walks"][name]["fitting"], record["walks"][name]["loss"]
        yield (
            words, percent(fits["mean"]), between(fits["interval"]), f"{loss['mean']:.2f}", between(loss["interval"], 2),
        )  # fmt: skip


def judged(record: Mapping[str, Any]) -> str:
    """How well the reward model orders pairs."""
    found = record["walks"]["reward model"]["accuracy"]
    return (
        f"The reward model (4.) puts {percent(found['mean'])} % of held-out pairs in order ({between(found['interval'])}). "
        "Three seeds each (`python -m benchmarks.aligning`); questions of the table are in no record, answers are sampled at "
        "temperature 1. The loss is that of answers which the first model gives: it tells how far a model has gone from that."
    )


def taught(record: Mapping[str, Any]) -> str:
    """What on-policy distillation brought beside offline."""
    told = {name: one["right"] for name, one in record["distillation"].items()}
    both = {
        name: f"{percent(told[name]['mean'])} % ({between(told[name]['interval'])})"
        for name in ("student", "offline", "on-policy")
    }
    low, high = told["on-policy"]["seeds"], told["offline"]["seeds"]
    better = sum(own > other for own, other in zip(low, high, strict=True))
    verdict = (
        "So on-policy distillation is the better one here." if better == len(low)
        else "So on-policy distillation does not beat offline here." if better == 0
        else f"On-policy distillation is the better one with {better} of {len(low)} seeds: this does not tell which is."
    )  # fmt: skip
    return (
        f"A teacher that adds ({percent(told['teacher']['mean'])} % right) teaches half-trained models ({both['student']}) by "
        f"as many answers, three seeds. By the answers of the data (`distillation` at alpha = 1) they reach {both['offline']}; "
        f"by answers of their own (`exact_on_policy_distillation`), {both['on-policy']}. {verdict}"
    )


def pages() -> dict[Path, str]:
    """The page with its figures."""
    rewards, aligned = (json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in ("rewards", "aligning"))
    heads = ("learnt from", "seeds", "mean", "95 %", "minutes to 90 %", "updates")
    of_walks = ("model", "words that fit, %", "95 %", "loss of answers at random", "95 %")
    made = {
        "sums": f"{prose(asked(rewards))}\n{table(heads, sums(rewards))}",
        "walks": f"{table(of_walks, walks(aligned))}\n{prose(judged(aligned))}",
        "taught": prose(taught(aligned)),
    }
    return filled(PAGES, made)


if __name__ == "__main__":
    write(pages())
