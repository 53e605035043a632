"""Pods and regions on paper: published runs above 900 accelerators beside their predictions, and what lies beyond them.

    python -m benchmarks.scale

Runs: the rate of running steps that authors print, beside the predicted one, in their layout. Goodputs: what is printed of
interruptions, beside the formula with their rate of failures. Energy: accelerator-hours times power, beside printed energy.
Pods: bytes between the two pods of PaLM. Scale: llama-3.1-405b on 12,288 to 196,608 accelerators, in the three ways of
`planning.coupling`. Links: the same on 98,304, with slower and faster links between regions. Nothing is drawn and no clock is
read: the figures are the same on any machine. Writes benchmarks/results/scale.json, of which `python docs/make_scale.py` makes
the page. A minute.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.compare import RESULTS
from benchmarks.failures import PARAMETERS, figure

from anyformer.catalogue import architecture
from anyformer.costs.memory import States
from anyformer.costs.named_hardware import hardware_of
from anyformer.plan import Plan
from anyformer.planning.bill import RunBill
from anyformer.planning.coupling import LARGEST, couplings
from anyformer.planning.dealing import stages
from anyformer.planning.fabric import OVERSUBSCRIBED, POD, PODS, REGION, Fabric, Tier, crossed, default, used
from anyformer.planning.failures import DAY, HOUR, PUBLISHED, Failures, TrainingJob, saves
from anyformer.planning.forecast import job_of
from anyformer.planning.goodput import best_interval, enough_spares, expected
from anyformer.planning.layout import Layout
from anyformer.planning.planner import plan_training, price_layout
from anyformer.planning.stages import row_of

BF16 = Plan(precision="bf16")
MODEL, LENGTH, TOKENS = "llama-3.1-405b", 8192, 15.6e12
PALM = Layout(dp=2, fsdp=256, tp=12, sp=False, micro_batch=2, micro_batches=2, checkpointing="full")
"""12-way model parallel, 256-way fully sharded in each of two pods, 2,048 sequences a step (arXiv 2204.02311, section 4)."""
PALM_SOURCE = "Chowdhery et al. 2022, arXiv 2204.02311, section 4"
OPT_LAYOUT = {"fsdp": 124, "tp": 8, "sp": False, "checkpointing": "full"}
OPT_SOURCE = "Zhang et al. 2022, arXiv 2205.01068, section 2.4; rate: its logbook"
PRINTED = (
    ("Llama 3", "Llama team 2024, arXiv 2407.21783, table 4", "llama-3.1-405b", 16384, 1),
    (
        "Megatron-LM, by MegaScale's authors",
        "Jiang et al. 2024 (MegaScale), arXiv 2402.15627, table 2",
        "megatron-175b",
        12288,
        0,
    ),
    ("MegaScale", "Jiang et al. 2024 (MegaScale), arXiv 2402.15627, table 2", "megatron-175b", 12288, 1),
    ("Nemotron-4", "NVIDIA 2024, arXiv 2406.11704, table 2", "nemotron-4-340b", 6144, 0),
    ("Megatron-LM", "Narayanan et al. 2021, arXiv 2104.04473, table 1", "megatron-1t", 3072, 0),
    ("LLaMA", "Touvron et al. 2023, arXiv 2302.13971, section 2.4 and table 15", "llama-65b", 2048, 0),
    ("DeepSeek-V3", "DeepSeek-AI 2025, arXiv 2505.09343, table 4", "deepseek-v3", 2048, 0),
)
"""Who, source, model, accelerators, and which of the source's rows for these, as in docs/published.toml and measured.toml."""
ENERGY = (
    ("OPT-175B", 809_472, 356), ("BLOOM-175B", 1_082_880, 475), ("LLaMA-7B", 82_432, 36), ("LLaMA-13B", 135_168, 59),
    ("LLaMA-33B", 530_432, 233), ("LLaMA-65B", 1_022_362, 449),
)  # fmt: skip
"""Accelerator-hours and MWh of Touvron et al. 2023, arXiv 2302.13971, table 15: A100 of 400 W, PUE 1.1."""
GBITS = (100.0, 400.0, 1000.0, 10_000.0, 100_000.0)


@cache
def published() -> Any:
    """docs/published_runs.py."""
    docs = str(Path(__file__).parents[1] / "docs")
    sys.path.insert(0, docs)
    try:
        return importlib.import_module("published_runs")
    finally:
        sys.path.remove(docs)


def runs() -> Iterator[dict[str, Any]]:
    """Printed and predicted rates of running steps, in tokens per second and accelerator."""
    every = published().timed()
    found = []
    for who, source, name, gpus, number in PRINTED:
        alike = [run for run in every if (run.source, run.name, run.gpus) == (source, name, gpus)]
        found.append((who, alike[min(number, len(alike) - 1)]))
    first, listed = found[0][1], {who for who, _ in found}
    found.insert(3, ("PaLM", _palm(first)))
    found.append(("OPT", _opt(first)))
    for who, run in found:
        best = run.best(run.on, run.layouts(run.on))
        predicted = best.tokens_per_second / best.layout.ranks
        per_token = published().flops_per_token(run.name, run.length)
        peak = run.on.peak("bf16")
        yield {
            "who": who,
            "name": run.name,
            "source": run.source,
            "hardware": run.on.name,
            "accelerators": run.gpus,
            "layout": str(best.layout),
            "micro_batches": [best.layout.micro_batch, best.layout.micro_batches],
            "printed": figure(run.rate, 4),
            "predicted": figure(predicted, 4),
            "printed_mfu": figure(run.rate * per_token / peak, 3),
            "predicted_mfu": figure(predicted * per_token / peak, 3),
            "step": figure(best.time.total, 4),
            "error": figure(predicted / run.rate - 1, 2),
            "fitted": run.fitted if who in listed else who == "OPT",  # the hours of OPT are fitted to, PaLM's are not
            "fits": best.fits,
        }


def _palm(like: Any) -> Any:
    """238.3 thousand tokens per second on two pods of 3,072; micro-batches are not printed."""
    layout = {"dp": 2, "fsdp": 256, "tp": 12, "sp": False, "checkpointing": "full"}
    return replace(
        like, source=PALM_SOURCE, name="palm-540b", row=0, on=hardware_of("tpu-v4"), gpus=6144, length=2048, sequences=2048,
        rate=238_300 / 6144, whole=False, layout=layout, plan=BF16, remark="",
    )  # fmt: skip


def _opt(like: Any) -> Any:
    """About 33 days on 1,024 for 300 billion tokens without failures; tp of a node, micro-batches and sharding are ours."""
    run = PUBLISHED["opt-175b"].row
    rate = 300e9 / (run["ideal_days"] * DAY * run["ideal_devices"])
    return replace(
        like, source=OPT_SOURCE, name="opt-175b", row=0, on=hardware_of("a100"), gpus=992, length=2048, sequences=992,
        rate=rate, whole=False, layout=OPT_LAYOUT, plan=BF16.but(attention="plain"), remark="",
    )  # fmt: skip


def goodputs() -> Iterator[dict[str, Any]]:
    """Goodput as printed, and by the formula, at the rate of failures that each printed, or Llama 3's."""
    llama, opt = PUBLISHED["llama-3.1-405b"], PUBLISHED["opt-175b"]
    cases: list[tuple[str, int, float, int, float, dict[str, float]]] = [
        ("llama-3.1-405b", llama.devices, llama.device_mtbf, PARAMETERS, llama.row["storage"], {}),
        ("megascale-175b", 12288, llama.device_mtbf, 175_000_000_000, 1e8 * 12288, {}),
        ("opt-175b", opt.devices, opt.device_mtbf, 175_000_000_000, 1e8 * opt.devices, {}),
    ]
    printed = {"llama-3.1-405b": 0.9, "megascale-175b": 0.9, "opt-175b": None}
    for name, devices, mtbf, parameters, storage, told in cases:
        costs = saves(12 * parameters, 12 * parameters / devices, storage, background=False)
        job = TrainingJob(devices, Failures(mtbf, **told), costs)
        row = {"name": name, "devices": devices, "daily": figure(DAY / job.mtbf, 3), "printed_above": printed[name]}
        yield row | {"formula": figure(expected(job, best_interval(job)).goodput, 4), "spares": enough_spares(job)}


def energies() -> Iterator[dict[str, Any]]:
    """MWh as printed, and hours * power * PUE."""
    power = hardware_of("a100").power
    for name, hours, printed in ENERGY:
        energy = RunBill(1, hours * HOUR, power, 0.0).energy
        assert energy is not None
        yield {"name": name, "hours": hours, "printed": printed, "ours": figure(energy / 1e6, 4)}


def pods() -> dict[str, Any]:
    """PaLM's two pods: gigabytes between each pair of hosts of 4 chips, and the throughput of two pods over that of one."""
    on, model = hardware_of("tpu-v4"), architecture("palm-540b")
    fabric = Fabric((Tier("pod", 3072, on.network),))
    row = replace(row_of(model, 2048, BF16), states=States(gradients=2))
    (stage,) = stages(row, 1, 1)
    (beyond,) = crossed(row, stage, PALM, fabric)
    rates = [
        price_layout(model, replace(PALM, dp=dp), length=2048, hardware=on, plan=BF16, fabric=fabric).tokens_per_second
        for dp in (1, 2)
    ]
    ratio = figure(rates[1] / rates[0], 4)
    return {"printed_gb": 1.3, "gib": figure(4 * beyond / 2**30, 3), "printed_ratio": 1.95, "ratio": ratio}


def ways(accelerators: int, gbits: float | None = None) -> Iterator[dict[str, Any]]:
    """The three ways to train the 405 B model on so many accelerators, `gbits` out of each region."""
    on, model = hardware_of("h100"), architecture(MODEL)
    regions, number = used(accelerators, POD, PODS)
    ranks = regions * number * POD
    out = REGION if gbits is None else gbits * 1e9 / 8
    fabric = default(on, POD, number, on.network / OVERSUBSCRIBED, out)
    planned = plan_training(
        model, ranks=ranks, batch_tokens=ranks * 1024, length=LENGTH, hardware=on, plan=BF16, show=1, fabric=fabric
    )
    for each in couplings(model, planned, BF16):
        job = job_of(model, each.candidate, Failures(50_000 * HOUR))
        interval = best_interval(job, each.step)
        goodput = expected(job, interval).goodput
        bill = RunBill(each.accelerators, TOKENS / each.tokens_per_second / goodput, on.power, 2.0)
        assert bill.energy is not None
        yield {
            "accelerators": ranks,
            "regions": regions,
            "pods": number,
            "gbits": gbits,
            "way": each.name,
            "outer": None if each.outer is None else asdict(each.outer),
            "replicas": each.replicas,
            "layout": str(each.candidate.layout),
            "step": figure(each.step, 4),
            "exposed": figure(each.exposed, 3),
            "busy": figure(each.busy, 3),
            "mfu": figure(each.mfu, 4),
            "tokens_per_second": figure(each.tokens_per_second),
            "goodput": figure(goodput, 4),
            "interval": figure(interval, 4),
            "write": figure(job.saves.write, 3),
            "storage_share": figure(job.saves.write / (interval + job.saves.pause), 3),
            "days": figure(bill.wall / DAY, 4),
            "gwh": figure(bill.energy / 1e9, 4),
            "dollars": figure(bill.price, 4),
            "extrapolated": ranks > LARGEST,
        }


def main() -> None:
    """Compute, write, print."""
    record = {
        "date": date.today().isoformat(),
        "versions": {name: version(name) for name in ("anyformer", "torch")},
        "assumed": {"region_bytes_per_second": REGION, "mtbf_hours": 50_000, "dollars_per_hour": 2.0, "pue": 1.1},
        "runs": list(runs()),
        "goodputs": list(goodputs()),
        "energies": list(energies()),
        "pods": pods(),
        "scale": [row for count in (12288, 24576, 49152, 98304, 196608) for row in ways(count)],
        "links": [row for gbits in GBITS for row in ways(98304, gbits)],
    }
    text = json.dumps(record, indent=1)
    (RESULTS / "scale.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
