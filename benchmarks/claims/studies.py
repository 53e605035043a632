"""Claims that a study of this repository has decided, or has left open."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.claims.claim import Claim, Figures, Topic, result

ROOT = Path(__file__).parents[2]
NORMS, PARTS, SHAPES = (
    "docs/studies/norms/report.json", "benchmarks/results/parts.json", "benchmarks/results/shapes.json",
)  # fmt: skip
OPEN = "cannot tell"


@cache
def shapes() -> Mapping[str, Any]:
    """What docs/shapes.md is made with: its claims, and its study of the result."""
    return runpy.run_path(str(ROOT / "docs" / "make_shapes.py"))


def compared(first: tuple[str, str], second: tuple[str, str]) -> Figures:
    """The difference of two shapes in one measure, its interval, and the verdict of docs/shapes.md."""
    made = shapes()
    study = made["Study"](result("shapes.json"))
    claim = next(each for each in made["CLAIMS"] if (each.first, each.second) == (first, second))
    whole, seeds = study.difference(claim)
    scale = 100 if made["MEASURES"][first[1]].share else 1
    value, low, high = (scale * each for each in (whole.interval.value, whole.interval.low, whole.interval.high))
    verdict, handicap = study.judged(claim)
    why = f"; {handicap}" if handicap else ""
    return {"value": value, "low": low, "high": high, "seeds": len(seeds), "verdict": verdict, "why": why}


def of_shapes(name: str, source: str, sentence: str, words: str, first: tuple[str, str], second: tuple[str, str]) -> Claim:
    """A claim that docs/shapes.md has, with its verdict."""
    return Claim(
        name, source, sentence, partial(compared, first, second), f"{words} {{value:+.2f}} ({{low:+.2f}} to {{high:+.2f}}), "
        "{seeds} seeds{why}",
        said("holds"), open=said(OPEN), how="from results", file=SHAPES,
    )  # fmt: skip


def said(verdict: str) -> Callable[[Figures], bool]:
    return lambda figures: figures["verdict"] == verdict


def norms() -> Figures:
    record = json.loads((ROOT / NORMS).read_text(encoding="utf-8"))
    (found,) = record["comparisons"]
    interval = found["interval"]
    return {
        "value": interval["value"], "low": interval["low"], "high": interval["high"],
        "post": sum(each < 0 for each in found["differences"]), "seeds": len(found["seeds"]),
    }  # fmt: skip


def lengths() -> Figures:
    found = result("parts.json")["lengths"]
    seconds = {name: [times[length] for length in ("1024", "32768")] for name, times in found["seconds"].items()}
    return {
        "linear": found["grows_as_T_to_the"]["linear attention"], "softmax": found["grows_as_T_to_the"]["softmax attention"],
        "long": seconds["softmax attention"][1] / seconds["linear attention"][1],
        "short": seconds["softmax attention"][0] / seconds["linear attention"][0],
    }  # fmt: skip


TOPIC = Topic(
    "Trained models and times, from studies",
    (
        Claim(
            "pre-norm-converges-faster", "A 4.7, C 4.2", "Pre-norm trains faster than post-norm.", norms,
            "0.3 M parameters, 300 updates, no warm-up, a tuned rate for each: post-norm is {value:+.3f} nats from pre-norm "
            "({low:+.3f} to {high:+.3f}), lower with {post} of {seeds} seeds",
            lambda f: f["low"] > 0, open=lambda f: f["low"] < 0 < f["high"], how="from results", file=NORMS,
        ),
        Claim(
            "linear-attention-in-time", "A 4.10", "Linear attention takes time in proportion to the length.", lengths,
            "1,024 to 32,768 tokens: seconds as the length to the power {linear:.2f}, of softmax {softmax:.2f}, which takes "
            "{short:.1f} "
            "times as long at first and {long:.0f} times at last",
            lambda f: f["linear"] < 1.15, how="from results", file=PARTS,
        ),
        of_shapes(
            "encoders-write-badly", "C 1.1, A 8.5", "Encoders are poor at generating, decoders good.",
            "going on with a text, GPT's nats a token against BERT's:", ("gpt", "continued"), ("bert", "continued"),
        ),
        of_shapes(
            "encoders-see-both-sides", "A 8.5", "Decoders lack the context on the right.",
            "a hidden word, 1.4 M parameters, points of GPT that weighs words by the whole text over GPT that has the left:",
            ("gpt", "filled"), ("gpt", "left"),
        ),
        of_shapes(
            "every-token-attends", "A 8.1", "Encoders capture context better, since every token attends to all.",
            "the same, points of BERT over GPT that weighs words by the whole text:",
            ("bert", "filled"), ("gpt", "filled"),
        ),
        of_shapes(
            "encoders-understand", "C 1.1, A 8.5", "Encoders are strong at understanding, decoders weaker.",
            "telling the class after equal fine-tuning, points of BERT over GPT:", ("bert", "classified"),
            ("gpt", "classified"),
        ),
        of_shapes(
            "both-sides-help-understanding", "A 8.1", "Understanding needs both sides of each token.",
            "the same decoder with a prefix read both ways and without, points:", ("prefix", "classified"),
            ("gpt", "classified"),
        ),
        of_shapes(
            "two-stacks-for-pairs", "A 8.5", "Encoder-decoders are best for sequence-to-sequence tasks.",
            "docstrings of functions after equal fine-tuning, T5's nats a token against GPT's:",
            ("t5", "summed_up"), ("gpt", "summed_up"),
        ),
    ),
)  # fmt: skip
