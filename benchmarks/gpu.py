"""Training and decoding on one GPU, beside transformers and litgpt, what is foretold beside what is measured.

    python -m benchmarks.gpu gpt2
    python -m benchmarks.gpu llama-1.2b --precisions bf16 fp8
    python -m benchmarks.gpu experts --without litgpt
    python -m benchmarks.gpu gpt2 --tiny      # a rehearsal of small sizes on any device, which writes no result

Each call stays under ten minutes on one H100. It measures the ceilings first (large products, large copies), then trains with
AdamW in one process, one contender after another, each alone in the memory of the device, and decodes without a prompt's
reading in the time. A peer that is not installed has a row that says so. Writes benchmarks/results/gpu-MODEL.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
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
from anyformer.model import build
from anyformer.operations import Shape
from anyformer.plan import Plan

PRECISIONS = ("bf16", "fp8")
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
    """Everything that is measured, by name."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for precision, (how, compile) in product(precisions, (("compiled", "on"), ("eager", "off"))):
        plan = Plan.parse({"precision": precision, "compile": compile, "attention": "sdpa"})
        found[f"training, anyformer, {precision}, {how}"] = partial(ours, model, plan, device, on)
    for (name, make), compiled in product(PEERS.items(), (True, False)):
        if name not in without:
            how = "compiled" if compiled else "eager"
            found[f"training, {name}, bf16, {how}"] = partial(theirs, make, model, compiled, device)
    for batch, compiled in product(BATCHES, (True, False)):
        how = "compiled" if compiled else "recorded"
        found[f"decoding, anyformer, batch {batch}, {how}"] = partial(decoded, model, batch, compiled, device, on)
    return found


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
    parser.add_argument("--tiny", action="store_true", help="small sizes on any device; nothing is written")
    arguments = parser.parse_args()
    if not torch.cuda.is_available() and not arguments.tiny:
        parser.error("torch sees no GPU here: --tiny rehearses on the processor")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MODELS[arguments.model].tiny if arguments.tiny else MODELS[arguments.model]
    on = calibrated(seconds=0.3 if arguments.tiny else 5.0, device=device.type)
    record: dict[str, Any] = {
        "model": arguments.model, "date": date.today().isoformat(), "machine": machine(), "device": on.title,
        "versions": versions("torch", "anyformer", *PEERS), "sizes": model.data(),
        "products": {name: round(rate) for name, rate in on.peaks.items()}, "copies": round(on.bandwidth), "results": {},
    }  # fmt: skip
    listed = jobs(model, arguments.precisions, arguments.without, device, on)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name, job in progress.track(list(listed.items()), description=arguments.model):
            record["results"][name] = job()
            progress.console.print(f"{name}: {record['results'][name]}")
            _forget(device)
    if arguments.tiny:
        print(json.dumps(record, indent=1))
    else:
        path = RESULTS / f"gpu-{arguments.model}.json"
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"written: {path}")


if __name__ == "__main__":
    main()
