"""The table of what was found: for every type and key how its values ended, and how many there are of each kind."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.drift.known import known
from benchmarks.drift.outcome import ENDED, Tried
from benchmarks.drift.sweep import DONE, Job
from benchmarks.drift.values import LENGTH

RESULT = Path(__file__).parents[1] / "results" / "drift.json"
PAGE = Path(__file__).parents[2] / "docs" / "huggingface.md"
START, END = "<!-- drift -->\n", "<!-- end of drift -->"
WORDS: Mapping[str, str] = {
    "equal": "the same logits, whole, padded and token by token, or read as before, and no code of transformers asks for it",
    "refused by name": "refused, with the key or the value in the error",
    "noted by name": "different on purpose, and a notice names the key",
    "transformers refuses": "refused by the class of transformers, or not finite there",
    "drift": "silently different",
    "unclear refusal": "refused without the key's name",
    "crash": "an error that is none of the user's",
}


BOUND = "bounds lengths, and no row that is tried is as long"
"""Why a length moves nothing (`LENGTH`), where nothing else says it."""
REFUSED = "what is read changes nothing, and other values are refused"
OPEN = "no reason is known"
USUAL = 50
"""Pairs from which on a reason has a row of its own on the page."""


def still(tried: Iterable[Tried]) -> dict[str, dict[str, str]]:
    """Why a key moves no logit of transformers at any value that was compared -> the key -> its bases, or their number.

    Keys that no reason is known for are listed with their bases.
    """
    of: dict[tuple[str, str], list[Tried]] = defaultdict(list)
    refused = set()
    for each in tried:
        if each.key and each.ended == "equal":
            of[each.base, each.key].append(each)
        elif each.ended == "refused by name":
            refused.add((each.base, each.key))
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (base, key), values in of.items():
        if not any(each.moves for each in values):
            said = next((each.why for each in reversed(values) if each.why), "")
            kind, name = base.partition(" ")[0], key.rpartition(".")[2]
            said = said or (BOUND if LENGTH.search(key) else "") or known(kind, name)
            found[said or (REFUSED if (base, key) in refused else OPEN)][key].append(base)
    return {
        why: {key: ", ".join(sorted(bases)) if why == OPEN else str(len(bases)) for key, bases in sorted(keys.items())}
        for why, keys in sorted(found.items())
    }


def summary(tried: Sequence[Tried], pairs: Mapping[str, Sequence[Job]]) -> dict[str, Any]:
    """The table; `pairs`: the keys that no test moves, and the others, of every base."""
    import torch
    import transformers

    ends: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for each in tried:
        if each.key and each.ended != DONE:
            ends[each.base, each.key][each.ended] += 1
    tables = {name: _by_base(ends, jobs) for name, jobs in pairs.items()}
    counted = Counter({end: sum(counts[end] for counts in ends.values()) for end in ENDED})
    return {
        "date": date.today().isoformat(),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "command": "python -m benchmarks.drift",
        "legend": {end[0]: end for end in ENDED},
        "values": {end: counted[end] for end in ENDED},
        "pairs": {
            name: sum(len(keys.split()) for base in table.values() for keys in base.values()) for name, table in tables.items()
        },
        **tables,
        "no logit moves": still(tried),
        "not yet tried": {name: _untried(ends, jobs) for name, jobs in pairs.items()},
    }


def _untried(ends: Mapping[tuple[str, str], Counter[str]], jobs: Sequence[Job]) -> dict[str, str]:
    """Base -> its keys of which no value was tried."""
    found: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        found[job.base] += [key for key in map(".".join, job.keys) if (job.base, key) not in ends]
    return {base: " ".join(sorted(keys)) for base, keys in sorted(found.items()) if keys}


def _by_base(ends: Mapping[tuple[str, str], Counter[str]], jobs: Sequence[Job]) -> dict[str, dict[str, str]]:
    """Base -> how values ended (`e2 t1`: two equal, one refused by transformers) -> the keys of which they did."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for job in jobs:
        for path in job.keys:
            counts = ends.get((job.base, key := ".".join(path)))
            if counts:
                said = " ".join(f"{end[0]}{counts[end]}" for end in ENDED if counts[end])
                found[job.base][said].append(key)
    return {base: {said: " ".join(sorted(keys)) for said, keys in sorted(of.items())} for base, of in sorted(found.items())}


def said(record: Mapping[str, Any]) -> str:
    """What the page says of it."""
    total, pairs = sum(record["values"].values()), record["pairs"]
    left = {of: sum(len(keys.split()) for keys in table.values()) for of, table in record["not yet tried"].items()}
    untried = f"{left['untested']:,} are not tried yet" if left["untested"] else "no pair is left out"
    more = f"{left['others']:,} more are moved by the tests alone, and " if left["others"] else ""
    lines = ["| values | how they ended |", "| --- | --- |"]
    lines += [f"| {count:,} | {WORDS[end]} |" for end, count in record["values"].items() if count or end == "drift"]
    types = len({base.partition(" ")[0] for name in pairs for base in record[name]})
    return "\n".join(
        [
            f"`{record['command']}` moves keys from their defaults, in several ways per key, beside transformers",
            f"{record['transformers']} on tiny random models in fp32: {sum(pairs.values()):,} pairs of a model type and a key,",
            f"of {types} types, {pairs['untested']:,} of them moved by no other test, {total:,} values in all",
            f"([every pair](../benchmarks/results/drift.json)); {more}{untried}.",
            "",
            *lines,
            "",
            "| pairs | why no logit moves |",
            "| --- | --- |",
            *_reasons(_stills(record["no logit moves"])),
            "",
        ]
    )


def _reasons(found: Counter[str]) -> list[str]:
    """Rows for the usual reasons, one for the others together, and one for none."""
    usual = [(why, count) for why, count in found.most_common() if count >= USUAL and why != OPEN]
    rest = sum(found.values()) - sum(count for _, count in usual) - found[OPEN]
    rows = [*usual, ("other reasons, each in the table", rest), (OPEN, found[OPEN])]
    return [f"| {count:,} | {why} |" for why, count in rows if count]


def _stills(found: Mapping[str, Mapping[str, str]]) -> Counter[str]:
    """Why no logit moves -> the number of pairs."""
    return Counter(
        {
            why: sum(len(bases.split(", ")) if why == OPEN else int(bases) for bases in keys.values())
            for why, keys in found.items()
        }
    )


def written(page: str, record: Mapping[str, Any]) -> str:
    """The page with the counts of a table."""
    before, rest = page.split(START)
    return f"{before}{START}{said(record)}{END}{rest.split(END)[1]}"


def write(tried: Sequence[Tried], pairs: Mapping[str, Sequence[Job]]) -> None:
    """The table, and the page's counts of it."""
    record = summary(tried, pairs)
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
