"""Writes docs/studies/README.md: what careful papers found, or mechanisms are for, and what the committed studies say of it.

python docs/make_studies.py
python docs/make_studies.py --judge     # first say in the reports which arms did not train: a minute, and reads the data
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from anyformer.evaluation.intervals import Interval
from anyformer.studies.statistics import ArmComparison, compare, holm, seeds_to_bound, seeds_to_tell
from anyformer.studies.trained import METRIC, Unread, fairly, learnt, reasons, unread
from anyformer.studies.words import sentence, trained
from anyformer.training.run import Run

STUDIES = Path(__file__).with_name("studies")
PAGE = STUDIES / "README.md"


@dataclass(frozen=True)
class Finding:
    """A paper's finding as a relation of two arms of a study: what `arm` is beside `than`, at a length other than the trained
    one if `length` is given; `expected` is None where they are to be equal."""

    said: str
    study: str
    arm: str
    than: str
    expected: str | None = None
    length: int | None = None


@dataclass(frozen=True)
class Answer:
    """A known answer: its question, the papers, what they found; `note`: what a reader should know of the budget."""

    question: str
    papers: str
    findings: tuple[Finding, ...]
    note: str = ""


def asked(path: Path) -> tuple[Answer, ...]:
    """The answers of a file: tables with the fields of `Answer`, each with its findings."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))["answers"]
    return tuple(Answer(**{**answer, "findings": tuple(Finding(**each) for each in answer["findings"])}) for answer in read)


ANSWERS = asked(STUDIES / "answers.toml")
SAME = 0.005
"""The share of a metric that counts as nothing: a finding whose interval leaves it less in its direction does not hold, and one
that two arms are equal holds where the interval leaves no more to either side."""
INTRODUCTION = """# Known answers

What careful papers found (1 to 6), and what they say that newer mechanisms are for (7 and on), asked again by `anyformer
compare`: small models, minutes on one or two cores, three seeds at least, verdicts with intervals. A finding **holds** or
**does not hold** here where the difference is told from none, or where the interval leaves it less than half a percent of the
metric: a difference so small does not hold, and that two arms are equal holds. Else one **cannot tell** with this budget, and
the table says how many seeds would ([the words](../compare.md#words-of-verdicts)). Of an arm that **did not train**, whose loss
is that of the frequencies of tokens alone, nothing is told either ([compare](../compare.md#what-makes-it-fair)). Sizes are far
below those of the papers, so what does not hold here says nothing against them. All findings of a study together are wrong
with a probability of at most 5 % where nothing differs (Holm); the intervals are 95 % ones of each alone, so that one without 0
may stand beside "cannot tell". This page is made from the reports (`python docs/make_studies.py`); the raw trials are not kept.
"""


@cache
def stored(study: str) -> Mapping[str, Any] | None:
    """The committed report of a study; None where there is none."""
    path = STUDIES / study / "report.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def numbers(report: Mapping[str, Any], arm: str, length: int | None) -> dict[int, float]:
    """The metric of an arm by seed, infinitely bad where it diverged."""
    worst = math.inf if report["better"] == "lower" else -math.inf
    if length is None:
        found = next(each["numbers"] for each in report["arms"] if each["name"] == arm)
    else:
        found = next(each["numbers"][arm] for each in report["lengths"] if each["length"] == length)
    return {int(seed): worst if number is None else number for seed, number in found.items()}


def there(finding: Finding) -> Mapping[str, Any] | None:
    """The report that tells of a finding; None where its study was not run, or not with its arms or at that length."""
    report = stored(finding.study)
    if report is None or not {finding.arm, finding.than} <= {each["name"] for each in report["arms"]}:
        return None
    lengths = [each["length"] for each in report.get("lengths", ())]
    return report if finding.length is None or finding.length in lengths else None


def alone(finding: Finding, report: Mapping[str, Any]) -> ArmComparison:
    """The two arms compared, as if nothing else were asked."""
    arm, than = (numbers(report, name, finding.length) for name in (finding.arm, finding.than))
    lower = report["better"] == "lower"
    return compare(than, {finding.arm: arm}, lower=lower, alpha=report["alpha"])[finding.arm]


def judged(finding: Finding, report: Mapping[str, Any]) -> ArmComparison:
    """The two arms compared, corrected by Holm for all findings that are asked of the study."""
    every = [each for answer in ANSWERS for each in answer.findings if each.study == finding.study and there(each)]
    corrected = holm({each.said: alone(each, report).p for each in every})[finding.said]
    found = alone(finding, report)
    needed = seeds_to_tell(found.differences, report["alpha"] / len(every))
    told = found if corrected <= report["alpha"] else replace(found, verdict="cannot tell", needed=needed)
    return fairly(told, finding.than, shares(report), reasons(losses(report), known(report)))


def losses(report: Mapping[str, Any]) -> dict[str, float]:
    """The mean of every arm that has one."""
    return {each["name"]: each["quality"]["value"] for each in report["arms"] if each.get("quality")}


def known(report: Mapping[str, Any]) -> dict[str, Unread]:
    """By arm, what reads nothing and its loss; nothing in a report of another metric."""
    return {name: Unread(**each) for name, each in report.get("unread", {}).items()}


def shares(report: Mapping[str, Any]) -> dict[str, float]:
    """Of every arm, what it learnt from context beside what the best one did."""
    return learnt(losses(report), known(report))


def judge(study: str) -> None:
    """Say in a committed report which arms did not train, in numbers and words; nothing that was measured is changed."""
    path, page = (STUDIES / study / name for name in ("report.json", "report.md"))
    report = json.loads(path.read_text(encoding="utf-8"))
    if report["metric"] != METRIC:
        return
    runs = {arm["name"]: run_of(report, arm["name"]) for arm in report["arms"]}
    report["unread"] = {name: asdict(each) for name, each in unread(runs).items()}
    text = page.read_text(encoding="utf-8")
    for arm in report["arms"]:
        arm["learnt"] = shares(report).get(arm["name"])
    told = [report["comparisons"], *(each["comparisons"] for each in report.get("lengths", ()))]
    for comparison in (each for comparisons in told for each in comparisons):
        found = restored(comparison)
        made = fairly(found, report["base"], shares(report), reasons(losses(report), known(report)))
        comparison |= {"verdict": made.verdict, "needed": made.needed, "why": made.why, "untrained": list(made.untrained)}
        if made.untrained and comparison in report["comparisons"]:
            text = reworded(text, made, report)
    lines = [line for line in text.split("\n") if not line.startswith("- **Trained**:")]
    after = next(number for number, line in enumerate(lines) if line.startswith("- **Verdicts**:")) + 1
    lines.insert(after, f"- **Trained**: {trained(known(report), shares(report))}.")
    text = "\n".join(lines)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def run_of(report: Mapping[str, Any], arm: str) -> Run:
    """The run of an arm with the first seed compared."""
    seed = report["seeds"][0]
    return next(Run.parse(run) for name, run in report["runs"].items() if name.startswith(f"{arm}-") and run["seed"] == seed)


def restored(comparison: Mapping[str, Any]) -> ArmComparison:
    """The comparison that a report holds as data."""
    between = comparison["interval"]
    pairs = {name: tuple(comparison[name]) for name in ("seeds", "differences", "diverged")}
    interval = None if between is None else Interval(**between)
    return ArmComparison(**{**comparison, **pairs, "interval": interval, "untrained": tuple(comparison.get("untrained", ()))})


def reworded(text: str, found: ArmComparison, report: Mapping[str, Any]) -> str:
    """The page with the sentence on an arm said anew."""
    lines = text.split("\n")
    (at,) = (number for number, line in enumerate(lines) if re.match(rf"- \*\*{found.name}(?: is |:)", line))
    lines[at] = f"- {sentence(found, report['base'], report['metric'], report['alpha'])}"
    return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """Whether a finding `holds`, None where that is open, and `why` not, or how many seeds would tell."""

    holds: bool | None
    why: str = ""


def decided(finding: Finding, found: ArmComparison, base: float, lower: bool) -> Outcome:
    """`base`: the mean of the arm that the other one is held against; `lower`: whether less of the metric is better."""
    if finding.expected is None and found.interval is not None and not found.untrained and not any(found.diverged):
        return same(found, SAME * base)
    if found.verdict == finding.expected:
        return Outcome(True)
    if found.verdict != "cannot tell":
        return Outcome(False, f"it is {found.verdict}")
    if found.untrained:
        return Outcome(None, found.why)
    if finding.expected is None or any(found.diverged):
        return Outcome(None)
    if found.interval is not None:
        most = found.interval.high if (finding.expected == "worse") is lower else -found.interval.low
        if most < SAME * base:
            return Outcome(False, f"it is {finding.expected} by {max(most, 0):.3f} at most")
    return Outcome(None, advised(found.needed))


def same(found: ArmComparison, margin: float) -> Outcome:
    """Whether two arms are equal: the interval leaves less than `margin` to either side. Else the seeds that would tell that
    they are, or that they are not: of both the fewer."""
    assert found.interval is not None
    most = max(found.interval.high, -found.interval.low)
    if most < margin:
        return Outcome(True)
    if found.verdict != "cannot tell":
        return Outcome(False, f"it is {found.verdict}")
    needed = (found.needed, seeds_to_bound(found.differences, margin))
    return Outcome(None, advised(min((each for each in needed if each is not None), default=None)))


def advised(seeds: int | None) -> str:
    """How many seeds would tell."""
    return f"{'more than 1,000' if seeds is None else f'about {seeds}'} seeds would"


def outcome(finding: Finding, found: ArmComparison, base: float, lower: bool) -> str:
    """`decided` in the words of the table."""
    made = decided(finding, found, base, lower)
    if made.holds is None:
        return f"cannot tell; {made.why}" if made.why else "cannot tell"
    return "**holds**" if made.holds else f"**does not hold here**: {made.why}"


def row(finding: Finding) -> str:
    """A line of the table."""
    where = "" if finding.length is None else f", length {finding.length}"
    report = there(finding)
    link = f"[{finding.study}]({finding.study}/report.md)"
    if report is None:
        return f"| {finding.said} | `{finding.study}` | not run | |"
    found = judged(finding, report)
    between = found.interval
    said = "-" if between is None else f"{between.value:+.3f} ({between.low:+.3f} to {between.high:+.3f})"
    arm, than = (mean(numbers(report, name, finding.length)) for name in (finding.arm, finding.than))
    here = outcome(finding, found, than, report["better"] == "lower")
    return f"| {finding.said} | {link}{where} | {report['metric']} {shown(arm)} against {shown(than)}: {said} | {here} |"


def mean(found: Mapping[int, float]) -> float:
    """The mean over the seeds that have a number."""
    finite = [each for each in found.values() if math.isfinite(each)]
    return sum(finite) / len(finite) if finite else math.nan


def shown(number: float) -> str:
    """A mean in the table."""
    return "diverged" if math.isnan(number) else f"{number:.3f}"


def lines() -> Iterator[str]:
    """The page."""
    yield INTRODUCTION
    for number, answer in enumerate(ANSWERS, start=1):
        yield f"## {number}. {answer.question}\n"
        yield f"{answer.papers}, arXiv.\n"
        yield "| finding | study | arm against the other, difference and its interval | here |\n|---|---|---|---|"
        yield from map(row, answer.findings)
        yield f"\n{answer.note}\n\n```" if answer.note else "\n```"
        for study in dict.fromkeys(finding.study for finding in answer.findings):
            yield f"anyformer compare recipes/studies/{study}.toml --out runs/{study}"
        yield "```\n"
        for study in dict.fromkeys(finding.study for finding in answer.findings):
            report = stored(study)
            if report is not None:
                yield budget(study, report)
                yield ""
    yield "How studies are written and read: [compare](../compare.md)."


def at_an_end(arm: Mapping[str, Any]) -> bool:
    """Whether the value that an arm was trained with is the least or the greatest of those that were tried."""
    return arm["tuned"] is not None and arm["tuned"]["edge"]


def budget(study: str, report: Mapping[str, Any]) -> str:
    """What every trial of a study was."""
    arm = report["arms"][0]
    picture = "lengths" if report.get("lengths") else "sensitivity" if study == "rates" else "differences"
    matched = "" if report["study"].get("match") else " Sizes are not matched."
    sizes = (
        f"{arm['costs']['parameters']:,} parameters ({report['base']}), {arm['updates']:,} updates, {arm['tokens']:,} tokens"
    )
    ends = [each["name"] for each in report["arms"] if at_an_end(each)]
    edge = f" Best at an end of the grid, so that another value may be better: {', '.join(ends)}." if ends else ""
    as_a_page = f" [As a page]({study}/report.html)." if (STUDIES / study / "report.html").is_file() else ""
    return (
        f"`{study}`: {sizes}, {len(report['seeds'])} seeds; tuned: {report['tuning']}.{matched}{edge}"
        f"{as_a_page}\n\n![{study}: {report['metric']} by arm]({study}/{picture}.svg)"
    )


def page() -> str:
    """The page as of today."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    for directory in sorted(path.parent.name for path in STUDIES.glob("*/report.json")) if "--judge" in sys.argv else ():
        judge(directory)
    PAGE.write_text(page(), encoding="utf-8")
