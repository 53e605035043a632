"""Writes docs/shapes.md and its picture from benchmarks/results/shapes.json: `python docs/make_shapes.py`.

A test holds the page to its result. Every figure is the mean over seeds; every interval is over the texts, resampled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyformer.evaluation.intervals import Interval, PairedDifference, paired
from anyformer.pictures.style import FAINT, HUES, drawing

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "shapes.json"
PAGE = Path(__file__).with_name("shapes.md")
PICTURE = Path(__file__).parent / "pictures" / "shapes.svg"
NAMES = {"bert": "BERT", "gpt": "GPT", "t5": "T5", "prefix": "prefix"}
TARGETS = {"bert": 19, "gpt": 128, "t5": 26, "prefix": 64}
"""Targets of a text of 128 tokens, about."""
HALF, GAPS = 64, 3
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """A figure of each text: a sum and the number that it is divided by, from their places in the JSON.

    `minus`: the place of what is taken from the sum; `chance`: of what frequencies alone reach; `share`: shown in per cent.
    """

    title: str
    unit: str
    lower: bool
    place: tuple[str, ...]
    count: int | tuple[str, ...]
    chance: str | None = None
    minus: tuple[str, ...] = ()
    share: bool = False

    def of(self, row: Mapping[str, Any]) -> tuple[Floats, Floats] | None:
        """(texts,) each: the sums and the counts of one shape with one seed; None where it has none."""
        values = _at(row, self.place)
        if values is None:
            return None
        counts = np.full(len(values), float(self.count)) if isinstance(self.count, int) else _at(row, self.count)
        assert counts is not None, "a sum has a count"
        taken = _at(row, self.minus) if self.minus else 0.0
        return values - taken, counts


MEASURES = {
    "continued": Measure(
        "going on, as pre-trained", "nats per token", True, ("continued",), HALF, "continued"
    ),
    "continued_after": Measure("going on, after more updates", "nats per token", True, ("continued_after",), HALF, "continued"),
    "gained": Measure("what more updates gain", "nats per token", False, ("continued",), HALF, minus=("continued_after",)),
    "filled": Measure("a hidden word, both sides", "share right of 10", False, ("filled", "right"), GAPS, "filled", share=True),
    "left": Measure(
        "a hidden word, left side only", "share right of 10", False, ("filled", "left_right"), GAPS, "filled", share=True
    ),
    "nats": Measure("a hidden word, both sides", "nats among 10", True, ("filled", "nats"), GAPS),
    "classified": Measure("telling the class", "share right of 20", False, ("classified",), 1, "classified", share=True),
    "summed_up": Measure("summing up", "nats per token", True, ("summed_up", "nats"), ("summed_up", "tokens")),
}  # fmt: skip
PANELS = ("continued", "continued_after", "filled", "classified", "summed_up")


@dataclass(frozen=True)
class Claim:
    """What a note says, and the two figures that it is held against: the first should be better."""

    words: str
    source: str
    first: tuple[str, str]
    second: tuple[str, str]
    experiment: str


SUMMARY = '"LLM training notes", 8.5'
CLAIMS = (
    Claim(
        "Decoders are good at generating; BERT is \"poor in generating\"", '"CS190C lecture 3", 1.1, 1.2',
        ("gpt", "continued"), ("bert", "continued"), "going on with a text: GPT against BERT, as pre-trained",
    ),
    Claim(
        'Encoder-only: "Not suited for generative tasks"', SUMMARY,
        ("gpt", "continued_after"), ("bert", "continued_after"), "the same after more updates on what is nearest to it",
    ),
    Claim(
        'T5\'s training "is not similar to \'prompt+answer\' format, need further finetuning"', '"CS190C lecture 3", 1.3',
        ("t5", "gained"), ("gpt", "gained"), "what more updates gain in going on: T5 against GPT",
    ),
    Claim(
        'Decoder-only: "Lacks bidirectional context"', SUMMARY,
        ("gpt", "filled"), ("gpt", "left"),
        "a hidden word: GPT that weighs each word by the likelihood of the whole text against GPT with what it reads before it",
    ),
    Claim(
        'Encoder-only: "Better context capture: every token attends to all others"', '"LLM training notes", 8.1',
        ("bert", "filled"), ("gpt", "filled"),
        "the same with both sides for both: GPT weighs each word by the likelihood of the whole text",
    ),
    Claim(
        'Encoder-only: "Strong understanding"; decoders are "weaker for pure understanding tasks"', SUMMARY,
        ("bert", "classified"), ("gpt", "classified"), "telling the class after equal fine-tuning: BERT against GPT",
    ),
    Claim(
        'Understanding needs both sides: "token sees both left and right neighbors"', '"LLM training notes", 8.1',
        ("prefix", "classified"), ("gpt", "classified"), "the same decoder with and without a prefix read both ways",
    ),
    Claim(
        'Encoder-decoder: "Best for sequence-to-sequence tasks"', SUMMARY,
        ("t5", "summed_up"), ("gpt", "summed_up"), "the docstring of a function after equal fine-tuning: T5 against GPT",
    ),
    Claim(
        'Encoder-decoder: "Best for sequence-to-sequence tasks"', SUMMARY,
        ("t5", "summed_up"), ("prefix", "summed_up"), "the same: T5 against the prefix decoder",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """All results: `rows` by shape, one for each seed."""

    record: Mapping[str, Any]

    @property
    def rows(self) -> dict[str, list[Mapping[str, Any]]]:
        return {shape: [row for row in self.record["results"] if row["shape"] == shape] for shape in NAMES}

    @property
    def seeds(self) -> int:
        """Seeds that every shape has."""
        return min(map(len, self.rows.values()))

    def values(self, shape: str, measure: str) -> tuple[list[Floats], Floats] | None:
        """The sums of each text with each seed, and the counts of the texts, which all seeds share."""
        found = [MEASURES[measure].of(row) for row in self.rows[shape][: self.seeds]]
        given = [each for each in found if each is not None]
        return ([sums for sums, _ in given], given[0][1]) if given else None

    def each_seed(self, shape: str, measure: str) -> list[float]:
        found = self.values(shape, measure)
        return [] if found is None else [float(sums.sum() / found[1].sum()) for sums in found[0]]

    def interval(self, shape: str, measure: str) -> Interval | None:
        """The mean over seeds, with the interval over texts."""
        found = self.values(shape, measure)
        if found is None:
            return None
        mean = np.mean(found[0], axis=0)
        return paired(mean, np.zeros_like(mean), found[1], unit="texts").interval

    def difference(self, claim: Claim) -> tuple[PairedDifference, list[float]]:
        """First minus second on the same texts, and the same for each seed."""
        first, second = self.values(*claim.first), self.values(*claim.second)
        assert first is not None, "a claim is about figures that there are"
        assert second is not None, "a claim is about figures that there are"
        lower = MEASURES[claim.first[1]].lower
        whole = paired(np.mean(first[0], axis=0), np.mean(second[0], axis=0), first[1], unit="texts", lower=lower)
        seeds = [float((a - b).sum() / first[1].sum()) for a, b in zip(first[0], second[0], strict=True)]
        return whole, seeds

    def handicap(self, claim: Claim) -> str:
        """Why it says nothing if the first shape loses: it has learnt nothing yet, or from fewer targets. Else empty."""
        first, second = claim.first[0], claim.second[0]
        chances = self.rows[first][0]["frequencies"]
        for name, measure in MEASURES.items():
            interval = self.interval(first, name)
            if measure.chance and interval is not None and interval.low <= chances[measure.chance] <= interval.high:
                value, chance = (_number(each, measure) for each in (interval.value, chances[measure.chance]))
                return f"{NAMES[first]} has hardly learnt: in {measure.title} {value}, where frequencies alone reach {chance}"
        if TARGETS[first] < TARGETS[second]:
            return f"{NAMES[first]} learnt from {TARGETS[first]} targets of a text, {NAMES[second]} from {TARGETS[second]}"
        return ""

    def judged(self, claim: Claim) -> tuple[str, str]:
        """The verdict, and the handicap where it is open: `holds` or `does not hold` only if the interval and every seed say
        so, and no handicap explains the loss."""
        whole, seeds = self.difference(claim)
        agree = len({each > 0 for each in seeds}) == 1
        if agree and whole.verdict == "better":
            return "holds", ""
        handicap = self.handicap(claim)
        told = agree and whole.verdict != "cannot tell" and not handicap
        return ("does not hold", "") if told else ("cannot tell", handicap)

    def verdict(self, claim: Claim) -> str:
        """The verdict alone."""
        return self.judged(claim)[0]


def page(study: Study) -> str:
    """The whole page."""
    record = study.record
    sizes = record["sizes"]
    parts = [
        INTRODUCTION.format(
            parameters=", ".join(f"{NAMES[shape]} {rows[0]['parameters']:,}" for shape, rows in study.rows.items()),
            updates=study.rows["gpt"][0]["updates"],
            tokens=study.rows["gpt"][0]["updates"] * 16 * 128,
            seeds=_seeds(study.seeds),
            date=record["date"],
            cpu=record["machine"]["cpu"],
            torch=record["versions"]["torch"],
        ),
        _claims(study),
        "## Figures\n\nThe mean over seeds, the 95 % interval over texts, and in brackets the seeds.\n",
        _figures(study),
        MEASUREMENTS.format(
            more=sizes["more"], tuning=sizes["tuning"], texts=sizes["texts"], records=sizes["records"], held=sizes["held_out"]
        ),
        _own(study),
        LIMITS,
    ]
    return "\n".join(parts)


def _seeds(count: int) -> str:
    return {1: "one seed", 2: "two seeds", 3: "three seeds"}.get(count, f"{count} seeds")


def _claims(study: Study) -> str:
    lines = ["| the notes say | held against | difference | verdict |", "|---|---|---|---|"]
    for claim in CLAIMS:
        whole, seeds = study.difference(claim)
        measure = MEASURES[claim.first[1]]
        shown = f"{_signed(whole.interval, measure)} {measure.unit.removesuffix(' of 10').removesuffix(' of 20')}"
        each = ", ".join(_number(value, measure, signed=True) for value in seeds)
        lines.append(
            f"| {claim.words} ({claim.source}) | {claim.experiment} | {shown} (seeds: {each}) | {_judged(study, claim)} |"
        )
    return "\n".join(lines) + "\n"


def _judged(study: Study, claim: Claim) -> str:
    """The verdict, and what it leaves open."""
    verdict, handicap = study.judged(claim)
    return f"{verdict}: {handicap}" if handicap else verdict


def _figures(study: Study) -> str:
    lines = [f"| | {' | '.join(NAMES.values())} | frequencies alone |", "|---|" + "---|" * (len(NAMES) + 1)]
    for name, measure in MEASURES.items():
        cells = [_cell(study, shape, name, measure) for shape in NAMES]
        chance = _number(study.rows["gpt"][0]["frequencies"][measure.chance], measure) if measure.chance else ""
        better = "less" if measure.lower else "more"
        lines.append(f"| {measure.title}: {measure.unit} ({better} is better) | {' | '.join(cells)} | {chance} |")
    return "\n".join(lines) + "\n"


def _cell(study: Study, shape: str, name: str, measure: Measure) -> str:
    interval = study.interval(shape, name)
    if interval is None:
        return "-"
    low, high = (_number(end, measure) for end in (interval.low, interval.high))
    seeds = ", ".join(_number(value, measure) for value in study.each_seed(shape, name))
    return f"**{_number(interval.value, measure)}** {low} to {high} ({seeds})"


def _own(study: Study) -> str:
    lines = [
        "| shape | objective | held-out loss, nats per target | accuracy | targets of 128 tokens |",
        "|---|---|---|---|---|",
    ]
    for shape, rows in study.rows.items():
        loss, accuracy = (float(np.mean([row["own"][key] for row in rows])) for key in ("loss", "accuracy"))
        lines.append(f"| {NAMES[shape]} | `{rows[0]['objective']}` | {loss:.3f} | {accuracy:.1%} | about {TARGETS[shape]} |")
    return "\n".join(lines) + "\n"


def _number(value: float, measure: Measure, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    return f"{value:{sign}.1%}" if measure.share else f"{value:{sign}.3f}"


def _signed(interval: Interval, measure: Measure) -> str:
    value, low, high = (_number(each, measure, signed=True) for each in (interval.value, interval.low, interval.high))
    return f"{value}, {low} to {high},"


def _at(row: Mapping[str, Any], place: Sequence[str]) -> Floats | None:
    for key in place:
        if key not in row:
            return None
        row = row[key]
    return np.asarray(row, dtype=np.float64)


def draw(study: Study, path: Path = PICTURE) -> None:
    """A panel for each ability: the mean with its interval over texts, and a dot for each seed."""
    with drawing(path, 11.0, 3.3) as figure:
        figure.set_facecolor("white")
        for axes, name in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
            measure = MEASURES[name]
            for column, shape in enumerate(NAMES):
                interval = study.interval(shape, name)
                if interval is None:
                    axes.text(column, 0.5, "none", transform=axes.get_xaxis_transform(), ha="center", color=FAINT)
                    continue
                ends = [[interval.value - interval.low], [interval.high - interval.value]]
                axes.errorbar(column, interval.value, ends, fmt="o", color=HUES[column], markersize=7, capsize=4, linewidth=1.6)
                seeds = study.each_seed(shape, name)
                axes.plot([column + 0.22] * len(seeds), seeds, ".", color=HUES[column], markersize=5, alpha=0.7)
            if measure.chance:
                axes.axhline(study.rows["gpt"][0]["frequencies"][measure.chance], color=FAINT, linestyle=":", linewidth=1)
            axes.set_xticks(range(len(NAMES)), NAMES.values())
            axes.set_xlim(-0.5, len(NAMES) - 0.5)
            axes.set_title(measure.title.replace(", ", ",\n"), fontsize=9)
            axes.set_ylabel(f"{measure.unit}, {'less' if measure.lower else 'more'} is better", fontsize=8)
            axes.grid(axis="y")
            axes.tick_params(labelsize=8)
            if measure.share:
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


INTRODUCTION = """# What each shape is good at

BERT-, GPT-, T5- and prefix-shaped models of equal size were trained on equal text for equally many updates, with their own
objective, and then asked to do the same four things. Train one yourself:

```
anyformer train recipes/shapes/bert.toml     # an encoder; hidden tokens (masked)
anyformer train recipes/shapes/gpt.toml      # a decoder; the next token (causal)
anyformer train recipes/shapes/t5.toml       # an encoder and a decoder; spans that are left out (span_corruption)
anyformer train recipes/shapes/prefix.toml   # a decoder that reads the first part both ways; the rest of a text (prefix)
```

All four are of one width (128), one kind of layer (RMS norms before attention and network, rotary positions, SwiGLU) and one
tied vocabulary of 2,048; only the mask, the stacks and the objective differ. T5's 3 + 3 layers have narrower networks, for its
cross-attention. Each saw the same {tokens:,} tokens of Python's library in the same order, in {updates} updates of 16 texts of
128 tokens, at one learning rate, with {seeds}.

Parameters: {parameters}.

![Five panels, one per ability, with the four shapes side by side](pictures/shapes.svg)

Large dots are means over seeds with 95 % intervals over the texts, small dots single seeds, dotted lines what the frequencies
of tokens or classes alone reach. Made by `python -m benchmarks.shapes` on {date}, {cpu}, torch {torch}.

## What the notes say of it

The difference is the first minus the second on the same texts, with its 95 % interval over texts (resampled in pairs). A claim
holds, or does not, only if the interval and every seed agree; and it does not only where the shape that loses has learnt something
by all measures, and from as many targets as the other.
"""
MEASUREMENTS = """
## How they were measured

- **Going on**: -log p(second half | first half) of {texts} held-out texts of 128 tokens, per token. GPT and prefix give it
  as they are (prefix reads the first half both ways). T5 reads the first half and its first sentinel, and its decoder writes
  the rest as the span that was left out; it was trained on spans of three tokens. BERT fills the rest in from left to right, a
  mask token standing for every token that is not there yet, so it is told how many will come. "After more updates": {more} more
  for each, on the objective nearest to the task: `causal`; `prefix` with half of the text; `ul2` with the second half as one
  span; `masked` with half of the tokens hidden.
- **A hidden word**: three words of a text are hidden, one at a time, and ten words are offered, nine of them drawn from the
  held-out texts by their frequency. BERT reads both sides and a mask token, T5 both sides and a sentinel. GPT and prefix weigh
  each word by the likelihood of the whole text with it, which is what Bayes' rule asks for, at ten passes for a word in place
  of one; and by what stands before it alone.
- **Telling the class**: which of 20 packages of Python's library a piece of code is from (`python-modules`), {held} held-out
  pieces, after {tuning} updates on up to {records} others. BERT's class is read at `[CLS]`, that of GPT and prefix at the last
  token (prefix reads the whole text both ways); T5 writes the name, and the likeliest of the names counts.
- **Summing up**: nats per token of the first sentence of a docstring, given the function's code (`python-summaries`),
  {held} held-out pairs, after {tuning} updates. T5 reads the code in its encoder, GPT and prefix as a question before the
  answer. BERT writes nothing, and has no figure.

## Each on its own objective

These losses cannot be compared: they are of different targets.
"""
LIMITS = """
## What this does not show

- Models of 1.4 million parameters and minutes of training. What differs here may vanish or turn round in large models; that a
  difference is there says little of its size elsewhere.
- Equal updates and text are not equal work: an update of T5 takes about half the operations of the others, since each of its
  stacks has half of the layers; and BERT learns from 19 targets where GPT learns from 128. That is a part of what the shapes
  are; with as many targets BERT may do better, so a loss of it decides nothing here.
- One learning rate for all. Seeds change weights, order and masks; the tokenizer and the held-out texts are the same.
- "Great for retrieval and embedding learning" (8.5) was not tried, and "heavier compute at inference" is not a matter of
  training: [costs.md](costs.md).
"""


def main() -> None:
    """Write the page and draw the picture."""
    study = Study(json.loads(RESULT.read_text(encoding="utf-8")))
    PAGE.write_text(page(study), encoding="utf-8")
    draw(study)


if __name__ == "__main__":
    main()
