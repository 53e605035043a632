"""Writes src/anyformer/atlas/measured.json, what the committed studies and claims say, and curves.json. A test compares both.

python docs/make_atlas.py
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import torch  # noqa: E402
from benchmarks.claims import CLAIMS, NOTES  # noqa: E402

from anyformer.atlas.curves import CURVES, ActivationCurve  # noqa: E402
from anyformer.atlas.holders import had  # noqa: E402
from anyformer.atlas.measured import (  # noqa: E402
    MEASURED,
    ArmLengths,
    ArmPair,
    MeasuredFinding,
    MeasuredStudy,
    NotesClaim,
    SharedByArms,
    StudiedArm,
)
from anyformer.describe import nested  # noqa: E402
from anyformer.parts.pointwise.activation import ACTIVATIONS  # noqa: E402
from anyformer.parts.pointwise.activation_module import FUNCTIONS  # noqa: E402
from docs import make_studies  # noqa: E402

CLAIMED = ROOT / "docs" / "reference" / "claims.md"
ROW = re.compile(r"\| (?P<sentence>.+) \((?P<source>[^()]+)\) \| .+ \| (?P<outcome>.+) \| \*\*(?P<verdict>.+)\*\* \|")
"""A line of the tables of claims.md."""


def plain(text: str) -> str:
    """Words without the marks of Markdown."""
    return text.replace("**", "")


def finding(asked: make_studies.Answer, each: make_studies.Finding) -> MeasuredFinding | None:
    """What a study says of a finding; None where it was not run."""
    report = make_studies.there(each)
    if report is None:
        return None
    found = make_studies.judged(each, report)
    arm, than = (make_studies.mean(make_studies.numbers(report, name, each.length)) for name in (each.arm, each.than))
    between = found.interval
    return MeasuredFinding(
        question=asked.question, papers=asked.papers, said=each.said, study=each.study, arm=each.arm, than=each.than,
        length=each.length, trained=report["study"]["base"]["length"], metric=report["metric"],
        arm_mean=make_studies.shown(arm), than_mean=make_studies.shown(than),
        difference="" if between is None else f"{between.value:+.3f} ({between.low:+.3f} to {between.high:+.3f})",
        here=plain(make_studies.outcome(each, found, than, report["better"] == "lower")),
    )  # fmt: skip


def study(name: str) -> MeasuredStudy | None:
    """The budget of a study, and the means of its arms by length; None where it was not run."""
    report = make_studies.stored(name)
    if report is None:
        return None
    trained = report["study"]["base"]["length"]
    lengths = [trained, *(each["length"] for each in report.get("lengths", ()))] if report.get("lengths") else []
    arms = []
    for arm in report["arms"] if lengths else ():
        own = [make_studies.numbers(report, arm["name"], None if length == trained else length) for length in lengths]
        arms.append(ArmLengths(arm["name"], tuple(round(make_studies.mean(each), 4) for each in own)))
    first = report["arms"][0]
    note = next(each.note for each in make_studies.ANSWERS if any(found.study == name for found in each.findings))
    return MeasuredStudy(
        name, report["title"], report["metric"], report["better"], first["costs"]["parameters"], first["updates"],
        first["tokens"], len(report["seeds"]), trained, tuple(lengths), tuple(arms), note,
    )  # fmt: skip


def arms_of(name: str) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """By arm of a study the mechanisms of its description, and the classes of its parts."""
    report = make_studies.stored(name)
    assert report is not None, "asked of studies that were run"
    made = {arm["name"]: make_studies.run_of(report, arm["name"]).architecture for arm in report["arms"]}
    return {arm: (had(own), frozenset(type(value).__name__ for value in nested(own))) for arm, own in made.items()}


def studied(name: str) -> tuple[SharedByArms, tuple[StudiedArm, ...]]:
    """What all arms of a study have, and the arms by what they have beside."""
    of_arms = arms_of(name)
    shared = [frozenset.intersection(*each) for each in zip(*of_arms.values(), strict=True)]
    rows = []
    for arm, own in of_arms.items():
        mechanisms, parts = (tuple(sorted(each - common)) for each, common in zip(own, shared, strict=True))
        rows.append(StudiedArm(name, arm, mechanisms, parts))
    mechanisms, parts = (tuple(sorted(each)) for each in shared)
    return SharedByArms(name, len(of_arms), mechanisms, parts), tuple(rows)


def pairs(name: str) -> Iterator[ArmPair]:
    """The arms of a study beside its base, as its report compares them."""
    report = make_studies.stored(name)
    assert report is not None, "asked of studies that were run"
    for each in report["comparisons"]:
        found = make_studies.restored(each)
        between = found.interval
        told = (
            "" if between is None else f": {report['metric']} {between.value:+.3f} ({between.low:+.3f} to {between.high:+.3f})"
        )
        yield ArmPair(name, found.name, report["base"], f"{found.verdict}{told}")


def claims() -> Iterator[NotesClaim]:
    """The claims of the page, each by the name that its command has."""
    names = {(claim.sentence, claim.source): claim for claim in CLAIMS.values()}
    for line in CLAIMED.read_text(encoding="utf-8").splitlines():
        if row := ROW.fullmatch(line):
            claim = names[row["sentence"], row["source"]]
            source = re.sub(r"\b[A-D](?= )", lambda letter: f'"{NOTES[letter[0]]}"', claim.source)
            yield NotesClaim(claim.name, row["sentence"], source, claim.how, claim.typed, row["outcome"], row["verdict"])


def measured() -> dict[str, list[dict[str, Any]]]:
    """All that the file holds."""
    answers = make_studies.ANSWERS
    findings = [found for asked in answers for each in asked.findings if (found := finding(asked, each)) is not None]
    names = dict.fromkeys(each.study for each in findings)
    studies = [found for name in names if (found := study(name)) is not None]
    shared, arms = zip(*map(studied, names), strict=True)
    return {
        "findings": [asdict(each) for each in findings],
        "studies": [asdict(each) for each in studies],
        "claims": [asdict(each) for each in claims()],
        "arms": [asdict(each) for own in arms for each in own],
        "shared": [asdict(each) for each in shared],
        "pairs": [asdict(each) for name in names for each in pairs(name)],
    }


def curves() -> str:
    """The file of the activations' curves, each with what it learns at its initial value."""
    low, high, places = -4.0, 3.0, 57
    x = torch.linspace(low, high, places)
    made = [
        ActivationCurve(
            name, entry.title, low, high, tuple(round(float(y), 3) for y in FUNCTIONS[name](x, *_starts(entry.learned)))
        )
        for name, entry in ACTIVATIONS.items()
    ]
    return "[\n" + ",\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in made) + "\n]\n"


def _starts(learned: Mapping[str, float]) -> list[torch.Tensor]:
    return [torch.tensor(start) for start in learned.values()]


def text() -> str:
    """The file of studies and claims as of today."""
    parts = (
        f'"{name}": [\n' + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"
        for name, rows in measured().items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    MEASURED.write_text(text(), encoding="utf-8")
    CURVES.write_text(curves(), encoding="utf-8")
