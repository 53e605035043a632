"""Training and decoding on one GPU, beside transformers and litgpt, what is foretold beside what is measured.

    python -m benchmarks.gpu gpt2
    python -m benchmarks.gpu llama-1.2b --precisions bf16 fp8
    python -m benchmarks.gpu experts --without litgpt
    python -m benchmarks.gpu gpt2 --tiny      # a rehearsal of small sizes on any device, which writes no result

No measurement begins after seven minutes, which leaves two for the one that runs; the next call goes on with what is missing.
The worthiest come first, and the result is written after each. It measures the ceilings first (large products, large copies),
then trains with AdamW in one process, one contender after another, each alone in the memory of the device, and decodes without
a prompt's reading in the time. A peer that is not installed has a row that says so, and so has one that finds no memory. Writes
benchmarks/results/gpu-MODEL.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from itertools import product
from typing import Any

import torch
from benchmarks.compare import RESULTS, machine
from benchmarks.gpu_models import MODELS, PEERS, Make, Model, PeerStep
from benchmarks.protocol import versions
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from anyformer.costs.allocated import peak_above
from anyformer.costs.calibration import calibrated
from anyformer.costs.hardware import Hardware
from anyformer.costs.peak import peak_memory
from anyformer.costs.roofline import step_time
from anyformer.generation import Sampling
from anyformer.generation.compiled import compiled as compiled_calls
from anyformer.generation.decode import continuations
from anyformer.generation.recorded import MULTIPLE, RecordedDecode
from anyformer.measuring.trial import TrainingStep
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.plan import Plan

PRECISIONS = ("bf16", "fp8")
MINUTES = 7
WARM, STEPS, ROUNDS = 3, 5, 3
"""Steps before measuring, steps of a round, rounds: a figure is the median over rounds."""
PROMPT, NEW, CONTEXT = 128, 128, 1024
BATCHES = {1: PROMPT, 256: CONTEXT - NEW}
"""Sequences decoded at once, and the length of their prompts."""


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of a call and of all work on the device that it asks for."""
    _wait(device)
    began = time.perf_counter()
    call()
    _wait(device)
    return time.perf_counter() - began


def trained(step: TrainingStep | PeerStep, tokens: int, device: torch.device) -> dict[str, float]:
    """Tokens per second, seconds to the end of the first step, and the peak of a step's memory."""
    first = timed(step.update, device)
    for _ in range(WARM - 1):
        step.update()
    rounds = [timed(lambda: [step.update() for _ in range(STEPS)], device) / STEPS for _ in range(ROUNDS)]
    kept = (value for state in step.optimiser.state.values() for value in state.values())
    held = sum(value.nbytes for value in (*step.model.parameters(), *kept) if isinstance(value, Tensor))
    return {
        "tokens_per_second": round(tokens / statistics.median(rounds), 1),
        "slowest": round(tokens / max(rounds), 1),
        "fastest": round(tokens / min(rounds), 1),
        "first_step_seconds": round(first, 2),
        "bytes": held + peak_above(step.update, device),
    }


def ours(model: Model, plan: Plan, device: torch.device, on: Hardware) -> dict[str, float]:
    """Training by this package: what is measured, and what is foretold from the ceilings."""
    made, shape = model.architecture(), Shape(batch=model.batch, length=model.length)
    found = trained(TrainingStep(made, shape, plan, device), shape.rows, device)
    flops = made.trained_cost(shape, plan).total_flops
    return {
        **found,
        "foretold_bytes": peak_memory(made, batch=model.batch, length=model.length, plan=plan).total,
        "foretold_tokens_per_second": round(step_time(made, shape, plan, on, "train").tokens_per_second, 1),
        "share_of_products": round(
            (flops.dense + flops.backward) * found["tokens_per_second"] / shape.rows / on.peaks["bf16"], 3
        ),
    }


def theirs(make: Make, model: Model, compiled: bool, device: torch.device) -> dict[str, Any]:
    """Training by a peer, if it is installed."""
    try:
        step = PeerStep(make, model, compiled, device)
    except ImportError as error:
        return {"missing": str(error)}
    return trained(step, model.batch * model.length, device)


def decoded(model: Model, batch: int, compiled: bool, device: torch.device, on: Hardware) -> dict[str, Any]:
    """Tokens per second of decoding by this package, all sequences together, and what the bytes of a step would allow."""
    number = Plan(precision="bf16")
    made = build(model.architecture(), number, device).to(torch.bfloat16).eval().requires_grad_(False)
    prompt = min(BATCHES[batch], model.length - NEW)
    prompts = torch.randint(3, model.vocab, (batch, prompt), generator=torch.Generator().manual_seed(0)).tolist()
    step = RecordedDecode(compiled_calls) if compiled else RecordedDecode()

    def rate() -> float:
        stamps = []
        for _ in continuations(made, prompts, sampling=Sampling(temperature=0), max_tokens=NEW, step=step, multiple=MULTIPLE):
            _wait(device)
            stamps.append(time.perf_counter())
        return batch * (len(stamps) - 1) / (stamps[-1] - stamps[0])

    rate()  # records or compiles
    shape = Shape(batch=batch, length=1, past=prompt + NEW // 2)
    return {
        "tokens_per_second": round(statistics.median(rate() for _ in range(ROUNDS)), 1),
        "foretold_tokens_per_second": round(step_time(made.architecture, shape, number, on, "decode").tokens_per_second, 1),
    }


def jobs(
    model: Model, precisions: list[str], without: list[str], device: torch.device, on: Hardware
) -> dict[str, Callable[[], dict[str, Any]]]:
    """Everything that is measured, by name, the worthiest first: last come plain steps and compiled decoding."""
    peers = {name: make for name, make in PEERS.items() if name not in without}
    trained_by_us = {
        f"training, anyformer, {precision}, {how}": partial(
            ours, model, Plan.parse({"precision": precision, "compile": compile, "attention": "sdpa"}), device, on
        )
        for (how, compile), precision in product((("compiled", "on"), ("eager", "off")), precisions)
    }
    trained_by_them = {
        f"training, {name}, bf16, {'compiled' if compiled else 'eager'}": partial(theirs, make, model, compiled, device)
        for compiled, (name, make) in product((True, False), peers.items())
    }
    decoding = {
        f"decoding, anyformer, batch {batch}, {'compiled' if compiled else 'recorded'}": partial(
            decoded, model, batch, compiled, device, on
        )
        for compiled, batch in product((False, True), BATCHES)
    }
    compiled_steps, plain_steps = ([name for name in trained_by_us if name.endswith(how)] for how in ("compiled", "eager"))
    all_jobs = {**trained_by_us, **trained_by_them, **decoding}
    order = [
        *compiled_steps, *(name for name in decoding if name.endswith("recorded")),
        *(name for name in trained_by_them if name.endswith("compiled")), *plain_steps, *trained_by_them, *decoding,
    ]  # fmt: skip
    return {name: all_jobs[name] for name in dict.fromkeys(order)}


def missing(found: Mapping[str, Mapping[str, Any]], listed: Mapping[str, object]) -> list[str]:
    """The jobs that have no figures yet, in order."""
    return [name for name in listed if name not in found]


def run_until(
    stops: float, listed: Mapping[str, Callable[[], dict[str, Any]]], record: dict[str, Any], keep: Callable[[], None]
) -> None:
    """Run the jobs that are missing from a record, and keep it after each. None begins after `stops`, in seconds of
    `time.monotonic`, and none that finds too little memory ends the others."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name in progress.track(missing(record["results"], listed), description=record["model"]):
            if time.monotonic() > stops:
                progress.console.print(f"{name}: no time, call again")
                continue
            try:
                record["results"][name] = listed[name]()
            except torch.OutOfMemoryError as error:
                record["results"][name] = {"missing": str(error).splitlines()[0]}
            progress.console.print(f"{name}: {record['results'][name]}")
            _forget(torch.device(record["device_type"]))
            keep()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _forget(device: torch.device) -> None:
    """Give the memory of the last contender back."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=tuple(MODELS))
    parser.add_argument(
        "--precisions", nargs="+", choices=PRECISIONS, default=["bf16"], help="of our training; peers train in bf16"
    )
    parser.add_argument("--without", nargs="+", choices=tuple(PEERS), default=[], help="peers to leave out")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"after which no measurement begins (default {MINUTES})")
    parser.add_argument("--tiny", action="store_true", help="small sizes on any device; nothing is written")
    arguments, began = parser.parse_args(), time.monotonic()
    if not torch.cuda.is_available() and not arguments.tiny:
        parser.error("torch sees no GPU here: --tiny rehearses on the processor")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MODELS[arguments.model].tiny if arguments.tiny else MODELS[arguments.model]
    on = calibrated(seconds=0.3 if arguments.tiny else 5.0, device=device.type)
    record: dict[str, Any] = {
        "model": arguments.model, "date": date.today().isoformat(), "machine": machine(), "device": on.title,
        "device_type": device.type,
        "versions": versions("torch", "anyformer", *PEERS), "sizes": model.data(),
        "products": {name: round(rate) for name, rate in on.peaks.items()}, "copies": round(on.bandwidth), "results": {},
    }  # fmt: skip
    listed = jobs(model, arguments.precisions, arguments.without, device, on)
    path = RESULTS / f"gpu-{arguments.model}.json"
    if not arguments.tiny and path.exists():
        before = json.loads(path.read_text())
        same = all(before[name] == record[name] for name in ("device", "versions", "sizes"))
        record["results"] = before["results"] if same else {}

    def keep() -> None:
        if not arguments.tiny:
            path.write_text(json.dumps(record, indent=1) + "\n")

    run_until(began + 60 * arguments.minutes, listed, record, keep)
    print(json.dumps(record, indent=1) if arguments.tiny else f"written: {path}")


if __name__ == "__main__":
    main()
