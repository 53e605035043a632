"""Findings in words and tables, the verdict first; what `report.md` holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from anyformer.costs.figures import scaled
from anyformer.evaluation.intervals import Interval
from anyformer.files import write_text
from anyformer.studies.findings import ArmFindings, Findings
from anyformer.studies.size_words import Table, gates_said, gates_table, ladder_said, ladder_table
from anyformer.studies.statistics import ArmComparison
from anyformer.studies.trained import LEAST, Unread


def verdict(found: ArmComparison, findings: Findings) -> str:
    """One sentence: what the arm is, by how much, and if nothing can be told, what would tell."""
    said = sentence(found, findings.base, findings.metric, findings.alpha)
    if found.verdict == "cannot tell" and any(found.differences) and not any(found.diverged) and not found.untrained:
        seeds = len(findings.seeds)
        advised = "more than 1,000 seeds" if found.needed is None else f"about {found.needed} seeds"
        if found.needed is None or found.needed > seeds:
            said += f" If the difference is the one seen, {advised} would tell (there were {seeds})."
    return said


def sentence(found: ArmComparison, base: str, metric: str, alpha: float) -> str:
    """What the arm is beside the base, by how much, and why."""
    if found.untrained:
        said = f"**{found.name}: cannot tell**, since {found.why}; beside {base}"
    elif found.verdict == "cannot tell":
        said = f"**{found.name}: cannot tell with this budget** whether it is better or worse than {base}"
    else:
        said = f"**{found.name} is {found.verdict}** than {base}"
    if found.interval is not None:
        said += f": {metric} {_signed(found.interval, alpha)}"
    return f"{said}." if found.untrained else f"{said}; {found.why}."


def _signed(interval: Interval, alpha: float) -> str:
    return f"{interval.value:+.4f} ({1 - alpha:.0%} interval {interval.low:+.4f} to {interval.high:+.4f})"


def quality_table(findings: Findings) -> Table:
    """Quality of every arm beside its costs."""
    head = (
        "arm", findings.metric, "parameters", "active", "training FLOPs", "tokens/s", "memory", "decode state per token",
        "largest gradient norm", "spikes", "diverged",
    )  # fmt: skip
    return head, tuple(_row(arm, findings) for arm in findings.arms)


def _row(arm: ArmFindings, findings: Findings) -> tuple[str, ...]:
    costs, quality = arm.costs, arm.quality
    shown = "-" if quality is None else f"{quality.value:.4f}"
    if quality is not None and len(findings.seeds) > 1:
        shown += f" ({quality.low:.4f} to {quality.high:.4f})"
    return (
        arm.name, shown, f"{costs.parameters:,}", f"{costs.active:,}", _amount(costs.flops),
        "-" if costs.tokens_per_second is None else f"{costs.tokens_per_second:,.0f}",
        "-" if costs.memory is None else f"{_amount(costs.memory)}B",
        f"{costs.state_bytes_per_token:,} B",
        "-" if arm.largest_gradient is None else f"{arm.largest_gradient:.3g}", str(arm.spikes),
        f"{len(arm.diverged)} of {len(findings.seeds)}",
    )  # fmt: skip


def _amount(number: float) -> str:
    return scaled(number).strip()


def seeds_table(findings: Findings) -> Table:
    """The metric of every arm with every seed."""
    rows = tuple((arm.name, *(_number(arm.numbers, seed, arm.diverged) for seed in findings.seeds)) for arm in findings.arms)
    return ("arm", *(f"seed {seed}" for seed in findings.seeds)), rows


def _number(numbers: Mapping[int, float | None], seed: int, diverged: Mapping[int, str]) -> str:
    number = numbers.get(seed)
    return ("diverged" if seed in diverged else "-") if number is None else f"{number:.4f}"


def tuning_table(findings: Findings) -> Table | None:
    """The metric of every arm at every value that was tried."""
    tuned = {arm.name: arm.tuned for arm in findings.arms if arm.tuned is not None}
    if not tuned:
        return None
    values = sorted({value for found in tuned.values() for value in found.tried})
    rows = []
    for name, found in tuned.items():
        cells = (("" if value not in found.tried else _tried(found.tried[value], value == found.best)) for value in values)
        rows.append((name, *cells))
    return ("arm", *(f"{value:g}" for value in values)), tuple(rows)


def _tried(number: float | None, best: bool) -> str:
    if number is None:
        return "failed"
    if abs(number) == float("inf"):
        return "diverged"
    return f"**{number:.4f}**" if best else f"{number:.4f}"


def differences_table(findings: Findings) -> Table:
    """What an arm changes, and what matching moved."""
    rows = []
    for arm in findings.arms:
        if arm.name != findings.base:
            changed = "; ".join(dict.fromkeys(f"`{path}`: {old} -> {new}" for path, old, new in arm.differences)) or "nothing"
            rows.append((arm.name, changed, arm.moved or "not matched", f"{arm.updates:,}", f"{arm.tokens:,}"))
    return ("arm", "differs from the base in", "matched by", "updates", "tokens"), tuple(rows)


def how(findings: Findings) -> list[tuple[str, str]]:
    """How arms were made comparable, in terms and what they were."""
    pairs = "the same batches for all arms" if findings.paired else "not the same batches for all arms"
    return [
        ("Matched", findings.matched),
        ("Budget", findings.budget),
        ("Tuned", findings.tuning),
        (
            "Seeds",
            f"{', '.join(map(str, findings.seeds))}; with a seed, {pairs}, and the same initial values where shapes agree",
        ),
        (
            "Verdicts",
            f"paired t test over seeds, all comparisons together wrong with a probability of at most {findings.alpha:g} where "
            "nothing differs (Holm); never from fewer than three seeds",
        ),
        *([("Trained", trained(findings.unread, _learnt(findings)))] if findings.unread else []),
        ("Held-out text", "the final numbers and those that chose the tuned value are of the same held-out part"),
        ("Machine", machine(findings)),
    ]


def trained(known: Mapping[str, Unread], shares: Mapping[str, float]) -> str:
    """By what an arm is said not to have trained, and the share that every arm learnt."""
    losses = " or ".join(dict.fromkeys(f"{each.said}, {each.loss:.4f}" for each in known.values()))
    each = ", ".join(f"{name} {max(share, 0.0):.0%}" for name, share in shares.items())
    return (
        f"no verdict on an arm that learnt less than {LEAST:.0%} of what the best arm did from context, beside what reads "
        f"nothing ({losses}): {each}"
    )


def _learnt(findings: Findings) -> dict[str, float]:
    return {arm.name: arm.learnt for arm in findings.arms if arm.learnt is not None}


def machine(findings: Findings) -> str:
    """The machine in a line."""
    facts = findings.environment
    versions = facts.get("versions", {})
    named = (f"{name} {versions[name]}" for name in ("torch", "anyformer") if name in versions)
    said = (f"threads per trial: {facts['threads']}", facts["precision"], *named)
    return ", ".join(said)


def further(findings: Findings) -> Iterator[tuple[str, list[str], list[Table]]]:
    """What other lengths and smaller sizes told: titles, sentences and tables, as far as there are some."""
    at_lengths = lengths_table(findings)
    if at_lengths is not None:
        yield "Lengths", list(lengths_said(findings)), [at_lengths]
    gates = gates_table(findings)
    if gates is not None:
        yield "Gates", list(gates_said(findings)), [gates]
    if findings.climb is not None:
        yield "Ladder", list(ladder_said(findings)), [ladder_table(findings.climb)]


def write_markdown(findings: Findings, path: Path, pictures: Mapping[str, str]) -> None:
    """`report.md`; `pictures`: files beside it, and what each shows."""
    write_text(path, "\n".join(markdown(findings, pictures)) + "\n")


def markdown(findings: Findings, pictures: Mapping[str, str]) -> Iterator[str]:
    """The lines of the report."""
    yield f"# {findings.title}\n"
    for found in findings.comparisons:
        yield f"- {verdict(found, findings)}"
    yield ""
    for note in findings.notes:
        yield f"> Note: {note}.\n"
    for name, said in pictures.items():
        yield f"![{said}]({name})\n"
    yield "## Quality and costs\n"
    less = "less" if findings.better == "lower" else "more"
    yield (
        f"Held-out {findings.metric}, of which {less} is better, with its {1 - findings.alpha:.0%} interval over seeds. Tokens "
        "per second and bytes of tensors are as measured, while trials shared the machine.\n"
    )
    yield from _lines(quality_table(findings))
    yield from _lines(seeds_table(findings))
    tuned = tuning_table(findings)
    if tuned is not None:
        yield f"## Sensitivity to `{findings.tuned_path}`\n"
        yield from _lines(tuned)
    for title, lines, tables in further(findings):
        yield f"## {title}\n"
        for line in lines:
            yield f"- {line}."
        yield ""
        for each in tables:
            yield from _lines(each)
    yield "## What was compared, and how\n"
    yield from _lines(differences_table(findings))
    for term, said in how(findings):
        yield f"- **{term}**: {said}."
    yield "\n## To repeat a trial\n"
    yield "In this directory; the resolved run of a trial is the `run.toml` that the command reads:\n\n```"
    yield from findings.commands.values()
    yield "```"


def _lines(table: Table) -> Iterator[str]:
    head, rows = table
    yield _line(head)
    yield "|" + "---|" * len(head)
    for row in rows:
        yield _line(row)
    yield ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


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
    """A sentence per length: which arms are better, which worse, and of which nobody can tell."""
    for each in findings.lengths:
        by_verdict: dict[str, list[str]] = {"better": [], "worse": [], "cannot tell": []}
        for found in each.comparisons:
            between = found.interval
            by = "" if between is None else f" ({between.value:+.4f}, {between.low:+.4f} to {between.high:+.4f})"
            by_verdict[found.verdict].append(f"{found.name}{by}")
        said = "; ".join(f"**{verdict}**: {', '.join(names)}" for verdict, names in by_verdict.items() if names)
        yield f"At length {each.length}, beside {findings.base}: {said}"
