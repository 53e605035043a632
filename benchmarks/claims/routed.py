"""Claims about mixtures of experts, trained for seconds: with and without a loss of balance, with few places and with many."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import mean

from benchmarks.claims.claim import Claim, Topic
from benchmarks.claims.studies import ROOT
from rich.console import Console

import anyformer as af
from anyformer.describe import change_all
from anyformer.parts import Capacity, Experts
from anyformer.training import load_run
from anyformer.training.journal import read_metrics

UPDATES, LAST = 200, 20


@cache
def trained(balance: float, factor: float | None) -> tuple[float, float, float]:
    """(validation loss, largest share, dropped share) after 200 updates, 1 of 8 experts chosen.

    Shares are means over six layers and the last 20 updates.
    """
    capacity = None if factor is None else Capacity(factor=factor)
    experts = Experts(experts=8, chosen=1, width=176, capacity=capacity)
    base = load_run(ROOT / "recipes" / "studies" / "small.toml")
    changes = {"steps": UPDATES, "decoder.layer.feedforward.sublayer": experts, "objective.balance_loss": balance}
    with tempfile.TemporaryDirectory() as place:
        af.train(change_all(base, changes), Path(place) / "run", console=Console(quiet=True))
        rows = read_metrics(Path(place) / "run")
    loss = [row["loss"] for row in rows if row["kind"] == "validation"][-1]
    late = [row for row in rows if row["kind"] == "train" and row["step"] > UPDATES - LAST]
    layers = [load for row in late for load in row["experts"].values()]
    return loss, mean(load["largest"] for load in layers), mean(load["dropped"] for load in layers)


def collapse() -> Mapping[str, float]:
    """A router with the loss of balance that Switch has, and without it."""
    without, with_it = trained(0.0, None), trained(0.01, None)
    return {"without": without[1], "with": with_it[1], "loss": without[0], "loss_with": with_it[0]}


def places() -> Mapping[str, float]:
    """Choices that find no place, by the factor of the capacity."""
    return {f"{name}{int(100 * alpha)}": trained(balance, alpha)[2]
            for name, balance in (("without", 0.0), ("with", 0.01)) for alpha in (1.0, 1.25, 2.0)}  # fmt: skip


TOPIC = Topic(
    "Routers, trained",
    (
        Claim(
            "router-collapses", "A 8.8", "Without a loss of balance the router collapses onto a few experts.", collapse,
            "8 experts, one chosen, 200 updates, one seed: the largest share is {without:.0%} without and {with:.0%} with the "
            "loss, even 12.5%; losses {loss:.3f} and {loss_with:.3f}",
            lambda f: f["without"] > 0.5, lambda f: f["without"] > 1.5 * f["with"],
            "twice an even share and more counts; it is far from one expert alone", how="measured",
        ),
        Claim(
            "capacity-drops-less", "A 8.8", "A larger capacity drops fewer tokens, and balance does too.", places,
            "dropped at 1, 1.25 and 2 times an even share: {without100:.0%}, {without125:.0%}, {without200:.0%} without the "
            "loss of balance, {with100:.0%}, {with125:.0%}, {with200:.0%} with it",
            lambda f: f["without100"] > f["without125"] > f["without200"] and f["with125"] < f["without125"],
            lambda f: f["with100"] > f["with125"] > f["with200"] and f["with125"] < f["without125"],
            "the router is balanced; without the loss, one seed each, 1.25 drops as many as 1", how="measured",
        ),
    ),
)  # fmt: skip
