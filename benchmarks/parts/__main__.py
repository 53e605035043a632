"""Measure, print, write."""

from __future__ import annotations

import argparse
import json
import time
from datetime import date
from importlib import metadata
from typing import Any

import torch
from benchmarks.compare import RESULTS, machine
from benchmarks.parts import __doc__ as about
from benchmarks.parts import attention, chosen, draw, kernels, lengths, mixers, networks, norms, scans
from benchmarks.parts.race import run

COMPARISONS = {**attention.COMPARISONS, **mixers.COMPARISONS, **networks.COMPARISONS}
MEASURES = {
    "experts over dense": networks.price,
    "one query": lengths.one_query,
    "lengths": lengths.lengths,
    "mask milliseconds": lengths.masks,
    "chosen keys": chosen.chosen_keys,
    "chosen blocks": chosen.chosen_blocks,
    "scans": scans.scans,
    "norms": norms.norms,
    "native kernel": kernels.native_kernel,
}


def versions() -> dict[str, str]:
    """Of all that took part."""
    found = {}
    for package in ("torch", "transformers", "fla-core"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def line(name: str, row: dict[str, Any]) -> str:
    """One comparison, read at a glance."""
    ratios = ", ".join(f"{ratio:.2f} x {other}" for other, ratio in row["ours_is_faster_by"].items())
    refused = "".join(f"; REFUSED {other}: {why}" for other, why in row["refused"].items())
    return f"{name} ({row['seconds']['anyformer'] * 1000:.2f} ms): {ratios or 'nobody to compare with'}{refused}"


def renew(name: str) -> None:
    """Measure some anew, and write them into the record beside all that was measured before."""
    record = json.loads((RESULTS / "parts.json").read_text())
    for each, measure in MEASURES.items():
        if name in each:
            of = {"date": date.today().isoformat(), "machine": machine(), "threads": torch.get_num_threads()}
            record[each.replace(" ", "_")] = measured = {**of, **measure()}
            print(f"{each}: {json.dumps(measured)}", flush=True)
    (RESULTS / "parts.json").write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="what has this in its name; writes nothing")
    parser.add_argument("--renew", help="what has this in its name, measured anew into the record, with a date of its own")
    given = parser.parse_args()
    if given.renew:
        renew(given.renew)
        return
    only = given.only or ""
    record: dict[str, Any] = {
        "date": date.today().isoformat(), "machine": machine(), "threads": torch.get_num_threads(), "versions": versions(),
        "comparisons": {},
    }  # fmt: skip
    begin = time.perf_counter()
    for name, prepare in COMPARISONS.items():
        if only in name:
            record["comparisons"][name] = run(prepare())
            torch.compiler.reset()
            print(f"{time.perf_counter() - begin:4.0f} s  {line(name, record['comparisons'][name])}", flush=True)
    for name, measure in MEASURES.items():
        if only in name:
            record[name.replace(" ", "_")] = measured = measure()
            print(f"{time.perf_counter() - begin:4.0f} s  {name}: {json.dumps(measured)}", flush=True)
    refused = [name for name, row in record["comparisons"].items() if row["refused"]]
    if not only:
        (RESULTS / "parts.json").write_text(json.dumps(record, indent=1) + "\n")
        draw.ratios(record["comparisons"]).savefig(RESULTS / "parts.png")
        draw.growth(record["lengths"]).savefig(RESULTS / "linear.png")
    if refused:
        raise SystemExit(f"contenders that give other results were not timed: {', '.join(refused)}")


if __name__ == "__main__":
    main()
