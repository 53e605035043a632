"""The section of docs/precision.md on tables of tokens in few bits, from benchmarks/results/small-tables.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import expm1
from statistics import mean
from typing import Any

import numpy as np
from page_text import prose, table

from anyformer.evaluation.intervals import Interval, paired


def small_tables(record: Mapping[str, Any]) -> Iterator[str]:
    """What 4 bits round, and the losses of layers and tables in each pair of formats."""
    heads = ("format", "bits stored", "bits read", "normal numbers", "layers, median", "worst", "table of tokens")
    yield table(heads, (_errors(record, name) for name in record["normal"])).rstrip("\n")
    yield ""
    results = record["results"]
    heads = ("layers", "table", "loss", "beyond fp32's", "perplexity")
    yield table(heads, (_losses(record, number) for number in range(len(results[0]["pairs"])))).rstrip("\n")
    yield ""
    sizes, targets = record["sizes"], results[0]["targets"]
    yield prose(
        f"Errors are |W' - W| / |W|, of a trained model the mean over seeds. {results[0]['parameters']:,} parameters, "
        f"{record['vocab']:,} tokens, {sizes['updates']:,} updates of {sizes['batch'] * sizes['length']:,} tokens, "
        f"{len(results)} seeds, {sum(targets):,} held-out tokens in {len(targets)} windows; fp32's loss is "
        f"{mean(each['loss'] for each in results):.4f} (`python -m benchmarks.small_tables`, {record['date']})."
    ).rstrip("\n")


def beyond(record: Mapping[str, Any], number: int) -> tuple[Interval, list[float]]:
    """Nats a token beyond fp32's of a pair of formats: the mean over seeds with its interval over windows, and each seed's."""
    targets = np.array(record["results"][0]["targets"], dtype=np.float64)
    nats = np.array([each["pairs"][number]["beyond"] for each in record["results"]])
    found = nats.mean(0)
    return paired(found, np.zeros_like(found), targets, unit="windows").interval, list(nats.sum(1) / targets.sum())


def _errors(record: Mapping[str, Any], name: str) -> list[str]:
    found = [each["errors"][name] for each in record["results"]]
    trained = [100 * mean(each[what] for each in found) for what in ("layers", "worst", "table")]
    stored, read = record["bits"][name]
    return [f"`{name}`", f"{stored:g}", f"{read:g}", *(f"{share:.2f} %" for share in (100 * record["normal"][name], *trained))]


def _losses(record: Mapping[str, Any], number: int) -> list[str]:
    pairs = [each["pairs"][number] for each in record["results"]]
    interval, seeds = beyond(record, number)
    low, high = (f"{1000 * end:+.2f}" for end in (interval.low, interval.high))
    least, most = (f"{1000 * end:+.2f}" for end in (min(seeds), max(seeds)))
    return [
        f"`{pairs[0]['layers']}`", f"`{pairs[0]['tables']}`", f"{mean(pair['loss'] for pair in pairs):.4f}",
        f"{1000 * interval.value:+.2f} ({low} to {high}), seeds {least} to {most}", f"{100 * expm1(interval.value):+.2f} %",
    ]  # fmt: skip
