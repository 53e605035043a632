"""Claims that a study of docs/studies has asked: a change of one part, at its best rate, with the seeds that it took."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any

from benchmarks.claims.claim import Claim, Figures, Topic, result
from benchmarks.claims.studies import OPEN, ROOT, said

VERDICTS = {True: "holds", False: "does not hold", None: OPEN}


@cache
def answers() -> Mapping[str, Any]:
    """What docs/studies/README.md is made with: findings, reports and verdicts."""
    return runpy.run_path(str(ROOT / "docs" / "make_studies.py"))


def found(study: str, words: str) -> Figures:
    """A finding of a study: its arms' means, their difference, and the verdict of docs/studies/README.md."""
    made = answers()
    finding = next(
        each for answer in made["ANSWERS"] for each in answer.findings if (each.study, each.said) == (study, words)
    )  # fmt: skip
    report = made["stored"](study)
    comparison = made["judged"](finding, report)
    arm, than = (made["mean"](made["numbers"](report, name, finding.length)) for name in (finding.arm, finding.than))
    outcome = made["decided"](finding, comparison, than, report["better"] == "lower")
    between, cost = comparison.interval, report["arms"][0]
    return {
        "arm": arm, "than": than, "value": between.value, "low": between.low, "high": between.high,
        "verdict": VERDICTS[outcome.holds],
        "seeds": len(comparison.differences), "metric": report["metric"], "parameters": cost["costs"]["parameters"] / 1e6,
        "updates": cost["updates"], "more": f"; {outcome.why}" if outcome.holds is None and outcome.why else "",
        "edge": "; best at an end of the grid of rates" if any(map(made["at_an_end"], report["arms"])) else "",
    }  # fmt: skip


def of_study(name: str, source: str, sentence: str, study: str, words: str, told: str) -> Claim:
    """A claim that a finding answers. `told`: the two arms in words."""
    return Claim(
        name, source, sentence, partial(found, study, words),
        f"{told}: {{metric}} {{arm:.3f}} against {{than:.3f}}, {{value:+.3f}} ({{low:+.3f}} to {{high:+.3f}}); "
        "{parameters:.1f} M parameters, {updates} updates, {seeds} seeds{edge}{more}",
        said("holds"), open=said(OPEN), how="from results", file=f"docs/studies/{study}/report.json",
    )  # fmt: skip


def sooner() -> Figures:
    """How many times the tokens post-norm takes to the losses that it reaches, on the mean curves of the study of norms."""
    pre, post = (mean_curve(each) for each in answers()["stored"]("norms")["arms"])
    ratios = [tokens / when(pre, loss) for tokens, loss in post if pre[-1][1] <= loss <= pre[0][1]]
    return {"least": min(ratios), "most": max(ratios), "last": ratios[-1], "losses": len(ratios)}


def mean_curve(arm: Mapping[str, Any]) -> list[tuple[float, float]]:
    """(tokens, validation loss), the mean over the seeds that did not diverge."""
    curves = [curve for seed, curve in arm["curves"].items() if arm["numbers"].get(seed) is not None]
    return [(points[0][0], sum(loss for _, loss in points) / len(points)) for points in zip(*curves, strict=True)]


def when(curve: list[tuple[float, float]], loss: float) -> float:
    """The tokens after which a falling curve reaches a loss, by straight lines between its points."""
    for (before, high), (after, low) in pairwise(curve):
        if low <= loss <= high:
            return before + (high - loss) / (high - low) * (after - before)
    return curve[0][0]


def norms() -> Figures:
    """How much less time RMSNorm takes than LayerNorm, in per cent, by itself and in a step of training."""
    found = result("parts.json")["norms"]
    return {
        f"{how}_{where.split()[-1]}": 100 * (1 - 1 / found[how][where])
        for how in ("eager", "compiled") for where in ("alone", "in a step")
    }  # fmt: skip


TOPIC = Topic(
    "Changes of one part, trained",
    (
        Claim(
            "faster-convergence", "A 4.7", "Pre-norm converges 1.3 to 1.5 times faster than post-norm.", sooner,
            "0.3 M parameters, 300 updates: to the same loss post-norm takes {least:.2f} to {most:.2f} times the tokens, "
            "{last:.2f} at the last of {losses} losses",
            lambda f: 1.3 <= f["last"] <= 1.5, how="from results", file="docs/studies/norms/report.json",
        ),
        Claim(
            "norms-are-cheaper", "A 5.2", "RMSNorm is 30 % cheaper by itself, and 2 to 6 % in all.", norms,
            "on a processor, forward and backward, time saved: {eager_alone:.0f} % by itself and {eager_step:.1f} % of a step "
            "of training; compiled {compiled_alone:.0f} % and {compiled_step:.1f} %",
            lambda f: 20 <= f["eager_alone"] <= 40 and 2 <= f["eager_step"] <= 6,
            lambda f: 20 <= f["compiled_alone"] <= 40 and 2 <= f["compiled_step"] <= 6, "it is compiled",
            how="from results", file="benchmarks/results/parts.json",
        ),
        of_study(
            "post-norm-needs-warm-up", "A 4.7, C 4.2", "Post-norm needs a warm-up.", "warmup",
            "A warm-up helps post-norm there", "at a rate of 0.016, post-norm with a warm-up against without",
        ),
        of_study(
            "qk-norm-stabilises", "B 5", "Norms of queries and keys keep training stable.", "qk-norm",
            "QK-norm is better than none at a rate of 0.064", "at a rate of 0.064, with against without",
        ),
        of_study(
            "gates-are-better", "B 2.4, C 3.1", "Gated networks are better than plain ones.", "parts",
            "A feed-forward without gates is worse", "at equal parameters, without a gate against with one",
        ),
        of_study(
            "one-head-costs-quality", "A 4.2, C 2.2", "One key head for all costs accuracy.", "parts",
            "One head of keys is a little worse", "at equal parameters, one key head against four",
        ),
        of_study(
            "rms-norm-loses-nothing", "C 4.1", "RMSNorm is as good as LayerNorm.", "parts",
            "LayerNorm equals RMSNorm", "LayerNorm against RMSNorm",
        ),
        of_study(
            "experts-are-better", "A 8.8, D 13", "Experts are better than one network of as much computing.", "experts",
            "Experts are better than dense, at equal active parameters", "2 of 8 experts against one network",
        ),
        of_study(
            "networks-are-needed", "A 8.6", "Without the feed-forward network a model does much worse.", "blocks",
            "A block without its network is worse", "of nearly equal parameters, attention alone against both",
        ),
        of_study(
            "side-by-side-is-as-good", "A 8.9", "Attention and network side by side are as good as in turn.", "blocks",
            "Side by side costs nothing", "side by side against one after the other",
        ),
        of_study(
            "wide-is-best", "B 3", "A width of 100 times the depth is best.", "shapes",
            "Two layers, 64 times as wide as deep, are better than six, 11 times", "2 layers of width 128 against 6 of 64",
        ),
        of_study(
            "decay-helps-with-cosine", "B 4", "Weight decay improves training together with a cosine schedule.", "decay",
            "Weight decay helps with a cosine schedule", "with a cosine schedule, decay of 0.1 against none",
        ),
        of_study(
            "decay-helps-when-constant", "B 4", "Weight decay acts through the schedule: at a constant rate it does not help.",
            "decay", "Weight decay does nothing at a constant rate", "at a constant rate, decay of 0.1 against none",
        ),
        of_study(
            "dropout-is-not-needed", "B 4", "Where text comes once, dropout does not help.", "dropout",
            "Dropout is worse where text comes once", "dropout of 0.1 against none",
        ),
        of_study(
            "dropout-helps-repeated-text", "B 4", "Where a little text comes many times, dropout helps.", "dropout-repeated",
            "Dropout is better where text comes 33 times", "18 kB read 33 times, dropout of 0.1 against none",
        ),
    ),
)  # fmt: skip
