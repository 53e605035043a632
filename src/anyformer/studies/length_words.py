"""Other lengths in words and in a table."""

from __future__ import annotations

from collections.abc import Iterator

from anyformer.evaluation.intervals import Interval
from anyformer.studies.findings import Findings
from anyformer.studies.size_words import Table


def lengths_table(findings: Findings) -> Table | None:
    """The metric of every arm at every length, the trained one first; None where no other was asked."""
    if not findings.lengths:
        return None
    trained = next(iter(findings.runs.values()))["length"]
    rows = [
        (arm.name, _shown(arm.quality), *(_shown(each.quality[arm.name]) for each in findings.lengths)) for arm in findings.arms
    ]
    return ("arm", f"length {trained} (trained)", *(f"length {each.length}" for each in findings.lengths)), tuple(rows)


def _shown(quality: Interval | None) -> str:
    return "-" if quality is None else f"{quality.value:.4f} ({quality.low:.4f} to {quality.high:.4f})"


def lengths_said(findings: Findings) -> Iterator[str]:
    """A sentence for each length: which arms are better, which worse, and of which nobody can tell."""
    for each in findings.lengths:
        by_verdict: dict[str, list[str]] = {"better": [], "worse": [], "cannot tell": []}
        for found in each.comparisons:
            between = found.interval
            by = "" if between is None else f" ({between.value:+.4f}, {between.low:+.4f} to {between.high:+.4f})"
            by_verdict[found.verdict].append(f"{found.name}{by}")
        said = "; ".join(f"**{verdict}**: {', '.join(names)}" for verdict, names in by_verdict.items() if names)
        yield f"At length {each.length}, beside {findings.base}: {said}"
