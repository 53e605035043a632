"""Decoding speed of anyformer on the CPU, in the shape of `peers/decode.py`.

    python -m benchmarks.ours_decode --peer anyformer --mode default --weights int8 --steps 3 --json

One unit is one greedy generation of 64 tokens after 64; counted is the time from the first new token to the last. The
gate: the logits must be those of the uncached fp32 model with the same numbers as weights, within bf16's rounding.

Modes: `default`, what `anyformer generate` does: weights laid out, a recorded step; `compiled`; `eager`, the plain step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from benchmarks.protocol import Worker, options, run, versions

from anyformer.catalogue.llama import llama
from anyformer.generation import Sampling, continuations, decode, generating
from anyformer.generation.compiled import MULTIPLE, CompiledDecode
from anyformer.generation.decode import Step
from anyformer.generation.recorded import RecordedDecode
from anyformer.model import Transformer
from anyformer.model import build as build_model
from anyformer.quantising import restored

SHAPE: dict[str, int] = {"width": 768, "depth": 12, "heads": 12, "kv_heads": 12, "ffn": 2048, "vocab": 32_000}
PROMPT, NEW = 64, 64
FORMATS = {"f32": "fp32", "bf16": "bf16", "int8": "int8", "int4": "int4-32"}
STEPS: dict[str, Callable[[], Step]] = {"default": RecordedDecode, "compiled": CompiledDecode, "eager": lambda: decode}


def gate(model: Transformer, step: Any, prompt: list[int]) -> float:
    """Largest gap of the step's logits to the uncached fp32 model's, over the largest logit, for a few tokens."""
    exact = build_model(model.architecture, seed=0)
    exact.load_state_dict({name: restored(value.detach()).float() for name, value in model.named_parameters()})
    gap = 0.0
    with torch.inference_mode():
        state = model.state(1, MULTIPLE)
        model(torch.tensor([prompt]), state=state)
        tokens = list(prompt)
        for token in (5, 77, 1234):
            tokens.append(token)
            state.slots.reserve(1, MULTIPLE)
            logits = step(model, torch.tensor([token]), state).float()
            wanted = exact(torch.tensor([tokens]))[:, -1]
            gap = max(gap, float((logits - wanted).abs().max() / wanted.abs().max()))
    return gap


def build(arguments: argparse.Namespace) -> Worker:
    """The model and a random prompt; one unit of work is one generation."""
    torch.manual_seed(arguments.seed)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    model = build_model(llama(**SHAPE, tied=True), seed=arguments.seed).eval()
    model = generating(model, FORMATS[arguments.weights], compiled=arguments.mode != "default")
    prompt = torch.randint(3, SHAPE["vocab"], (PROMPT,)).tolist()
    step = STEPS[arguments.mode]()
    begin = time.perf_counter()
    gap = gate(model, step, prompt)
    first = time.perf_counter() - begin
    allowed = 1e-4 if arguments.weights == "f32" else 0.05
    if not gap < allowed:
        raise SystemExit(f"the logits differ from the uncached fp32 model's by {gap:.3g} of the largest")
    generations: list[list[int]] = []

    def unit() -> float:
        stamps, tokens = [], []
        for chosen in continuations(
            model, [prompt], sampling=Sampling(temperature=0), max_tokens=NEW, step=step,
            multiple=1 if arguments.mode == "eager" else MULTIPLE,
        ):  # fmt: skip
            tokens.append(int(chosen))
            stamps.append(time.perf_counter())
        generations.append(tokens)
        return stamps[-1] - stamps[0]

    def outcome() -> dict[str, Any]:
        return {"first_tokens": generations[-1][:8], "repeatable": all(tokens == generations[0] for tokens in generations)}

    facts: dict[str, Any] = {
        "task": "decode",
        "mode": arguments.mode,
        "weights": arguments.weights,
        "shape": {**SHAPE, "prompt": PROMPT, "new": NEW},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "gap_to_fp32": round(gap, 5),
        "gate_and_compile_seconds": round(first, 1),
        "threads": torch.get_num_threads(),
        "versions": versions("torch", "anyformer"),
    }
    return Worker(unit, NEW - 1, facts, outcome)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("decoding speed of anyformer on the CPU", ["anyformer"])
    parser.add_argument("--mode", choices=tuple(STEPS), default="default")
    parser.add_argument("--weights", choices=tuple(FORMATS), default="bf16")
    run(parser.parse_args(), build)


if __name__ == "__main__":
    main()
