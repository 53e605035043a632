"""Writes docs/studies/README.md: what careful papers found, or mechanisms are for, and what the committed studies say of it.

python docs/make_studies.py
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyformer.studies.statistics import Comparison, compare, holm, seeds_to_tell

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
    expected: str | None
    length: int | None = None


@dataclass(frozen=True)
class Answer:
    """A known answer: its question, the papers, what they found; `note`: what a reader should know of the budget."""

    question: str
    papers: str
    findings: tuple[Finding, ...]
    note: str = ""


ANSWERS = (
    Answer(
        "Which mixers recall what they were told, and which keep the parity of bits?",
        "Arora et al. 2023 (2312.04927), Yang et al. 2024 (2406.06484), Grazzi et al. 2024 (2411.12537)",
        (
            Finding(
                "Linear attention recalls less than attention, at width 32", "recall", "linear_32", "attention_32", "worse"
            ),
            Finding("and at width 64", "recall", "linear_64", "attention_64", "worse"),
            Finding("Linear attention recalls more with more width", "recall", "linear_64", "linear_32", "better"),
            Finding("Gated delta recalls more than linear attention", "recall", "gated_delta_32", "linear_32", "better"),
            Finding("and less than attention", "recall", "gated_delta_32", "attention_32", "worse"),
            Finding(
                "Beta up to 2 keeps the parity at 8 times the length, attention does not",
                "parity",
                "beta_up_to_2",
                "attention",
                "better",
                256,
            ),
            Finding("and beta up to 1 does not", "parity", "beta_up_to_1", "beta_up_to_2", "worse", 256),
        ),
        "Updates are few and the rate is one for all arms: attention needs no more, and recurrent mixers are trained some ten "
        "times longer in the papers, and at several rates.",
    ),
    Answer(
        "Do transformers copy better than recurrent mixers of equal size, and further than they were trained?",
        "Jelassi et al. 2024 (2402.01032)",
        (
            Finding("Linear attention copies worse than attention", "copying", "linear_attention", "attention", "worse"),
            Finding("Gated delta copies worse than attention", "copying", "gated_delta", "attention", "worse"),
            Finding("Linear attention at 4 times the length", "copying", "linear_attention", "attention", "worse", 129),
            Finding("Gated delta at 4 times the length", "copying", "gated_delta", "attention", "worse", 129),
        ),
        "Attention has no positions here, and finds a letter again by those before it. With rotary positions it copied as well at the "
        "trained length, and at twice that length no better than by chance (one trial, not kept).",
    ),
    Answer(
        "Which positions hold beyond the trained length?",
        "Press et al. 2022 (2108.12409), Kazemnejad et al. 2023 (2305.19466)",
        (
            Finding(
                "Learned is worse than sinusoidal, at 8 times the length", "positions", "learned", "sinusoidal", "worse", 512
            ),
            Finding("Sinusoidal is worse than rotary", "positions", "sinusoidal", "rotary", "worse", 512),
            Finding("Relative buckets are better than rotary", "positions", "relative_buckets", "rotary", "better", 512),
            Finding("ALiBi is better than rotary", "positions", "alibi", "rotary", "better", 512),
            Finding("No positions are better than rotary", "positions", "none", "rotary", "better", 512),
        ),
        "At the trained length rotary positions are the best here (see the report): what is better beyond it was bought with that.",
    ),
    Answer(
        "Do induction heads take two layers?",
        "Olsson et al. 2022 (2209.11895)",
        (Finding("One layer is worse than two", "induction", "one_layer", "two_layers", "worse"),),
    ),
    Answer(
        "Does pre-norm train without warm-up where post-norm does not, and does QK-norm help at high rates?",
        "Xiong et al. 2020 (2002.04745), Dehghani et al. 2023 (2302.05442), Wortsman et al. 2023 (2309.14322)",
        (
            Finding("Post-norm is worse than pre-norm at the best rate of each", "norms", "post_norm", "pre_norm", "worse"),
            Finding("and at a rate of 0.008", "warmup", "post_norm", "pre_norm", "worse"),
            Finding("A warm-up helps post-norm there", "warmup", "post_norm_warmed_up", "post_norm", "better"),
            Finding("QK-norm is better than none at a rate of 0.064", "qk-norm", "qk_norm", "pre_norm", "better"),
            Finding("At its best rate QK-norm costs nothing", "rates", "qk_norm", "pre_norm", None),
        ),
    ),
    Answer(
        "What are gates, heads of keys, norms and experts worth at equal parameters?",
        "Shazeer 2020 (2002.05202), Ainslie et al. 2023 (2305.13245), Zhang & Sennrich 2019 (1910.07467), Fedus et al. 2021 "
        "(2101.03961)",
        (
            Finding("A feed-forward without gates is worse", "parts", "no_gate", "modern", "worse"),
            Finding("One head of keys is a little worse", "parts", "multi_query", "modern", "worse"),
            Finding("Grouped heads of keys cost almost nothing", "parts", "grouped_query", "modern", None),
            Finding("LayerNorm equals RMSNorm", "parts", "layer_norm", "modern", None),
            Finding("Experts are better than dense, at equal active parameters", "experts", "experts", "dense", "better"),
        ),
    ),
)


def asked(path: Path) -> tuple[Answer, ...]:
    """The answers of a file: tables with the fields of `Answer`, each with its findings."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))["answers"]
    findings = [tuple(Finding(**{"expected": None, **each}) for each in answer.pop("findings")) for answer in read]
    return tuple(Answer(**answer, findings=found) for answer, found in zip(read, findings, strict=True))


MECHANISMS = asked(STUDIES / "mechanisms.toml")
"""What each newer mechanism is for."""
INTRODUCTION = """# Known answers

What careful papers found (1 to 6), and what they say that newer mechanisms are for (7 and on), asked again by
`anyformer compare`: small models, minutes on one or two cores, three seeds at least, verdicts with intervals. A finding
**holds** or **does not hold** here where the difference is told from none; else nobody can tell with this budget, and the
table says how many seeds would. Sizes are far below those of the papers, so what does not hold here says nothing against
them. All findings of a study together are wrong with a probability of at most 5 % where nothing differs (Holm); the intervals
are 95 % ones of each alone. This page is made from the reports (`python docs/make_studies.py`); the raw trials are not kept.
"""


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
    """The report that tells of a finding; None where its study was not run, or not at that length."""
    report = stored(finding.study)
    lengths = () if report is None else [each["length"] for each in report.get("lengths", ())]
    return report if finding.length is None or finding.length in lengths else None


def alone(finding: Finding, report: Mapping[str, Any]) -> Comparison:
    """The two arms compared, as if nothing else were asked."""
    arm, than = (numbers(report, name, finding.length) for name in (finding.arm, finding.than))
    lower = report["better"] == "lower"
    return compare(than, {finding.arm: arm}, lower=lower, alpha=report["alpha"])[finding.arm]


def judged(finding: Finding, report: Mapping[str, Any]) -> Comparison:
    """The two arms compared, corrected by Holm for all findings that are asked of the study."""
    every = [
        each for answer in (*ANSWERS, *MECHANISMS) for each in answer.findings if each.study == finding.study and there(each)
    ]
    corrected = holm({each.said: alone(each, report).p for each in every})[finding.said]
    found = alone(finding, report)
    needed = seeds_to_tell(found.differences, report["alpha"] / len(every))
    return found if corrected <= report["alpha"] else replace(found, verdict="cannot tell", needed=needed)


def outcome(finding: Finding, found: Comparison) -> str:
    """In words."""
    if found.verdict == finding.expected:
        return "**holds**"
    if found.verdict != "cannot tell":
        return f"**does not hold here**: it is {found.verdict}"
    if finding.expected is None:
        return "no difference is told"
    seeds = "more than 1,000 seeds" if found.needed is None else f"about {found.needed} seeds"
    return f"cannot tell; {seeds} would" if not any(found.diverged) else "cannot tell"


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
    means = (mean(numbers(report, name, finding.length)) for name in (finding.arm, finding.than))
    return (
        f"| {finding.said} | {link}{where} | {report['metric']} {' against '.join(means)}: {said} | {outcome(finding, found)} |"
    )


def mean(found: Mapping[int, float]) -> str:
    """The mean over the seeds that have a number."""
    finite = [each for each in found.values() if math.isfinite(each)]
    return f"{sum(finite) / len(finite):.3f}" if finite else "diverged"


def lines() -> Iterator[str]:
    """The page."""
    yield INTRODUCTION
    for number, answer in enumerate((*ANSWERS, *MECHANISMS), start=1):
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


def budget(study: str, report: Mapping[str, Any]) -> str:
    """What every trial of a study was."""
    arm = report["arms"][0]
    picture = "lengths" if report.get("lengths") else "sensitivity" if study == "rates" else "differences"
    matched = "" if report["study"].get("match") else " Sizes are not matched."
    sizes = (
        f"{arm['costs']['parameters']:,} parameters ({report['base']}), {arm['updates']:,} updates, {arm['tokens']:,} tokens"
    )
    as_a_page = f" [As a page]({study}/report.html)." if (STUDIES / study / "report.html").is_file() else ""
    return (
        f"`{study}`: {sizes}, {len(report['seeds'])} seeds; tuned: {report['tuning']}.{matched}"
        f"{as_a_page}\n\n![{study}: {report['metric']} by arm]({study}/{picture}.svg)"
    )


def page() -> str:
    """The page as of today."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
