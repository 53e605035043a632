"""Decoding speed of anyformer on the CPU, of a model of `cases.py`.

    python -m benchmarks.ours_decode --peer anyformer --model mla --mode default --weights int8 --steps 3 --json

One unit is one greedy generation of 64 tokens for each row; counted is the time from the first new token to the last. The
gate (`decoding_gate`): the logits of every new token of the first generation must be those of the uncached fp32 model with the
same numbers as weights after the same tokens, within bf16's rounding.

Modes: `default`, what `anyformer generate` does; `compiled`; `eager`, the plain step.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import torch
from benchmarks.cases import DECODERS, NEW, WEIGHTS, Decoder
from benchmarks.decoding_gate import Gate, Kept, Measured
from benchmarks.generations import Generations, Stamped, decoding_options, stamp
from benchmarks.ours_models import decoder
from benchmarks.protocol import Worker, options, run, versions

from anyformer.cli.computing import in_large_pages, model_is_loaded
from anyformer.generation import Sampling, decode, generating
from anyformer.generation.decode import Step, continued
from anyformer.generation.steps import stepper
from anyformer.model.transformer import Transformer
from anyformer.model.transformer import build as build_model
from anyformer.operations import Shape
from anyformer.operations.work import distinct_experts
from anyformer.quantising.tensor import read_bytes

FORMATS: Mapping[str, str] = {"f32": "fp32", "bf16": "bf16", "int8": "int8", "int4": "int4-32", "int4-64": "int4-64/int4-64"}
"""What `anyformer generate --weights` is given."""
MODES: Mapping[str, bool | None] = {"default": None, "compiled": True, "eager": False}
"""Whether the step is compiled; None leaves it to the package."""
ALLOWED: Mapping[str, float] = {"f32": 1e-4}
"""The largest gap of the logits, over the largest of them."""
ROUNDING = 0.05
"""The same for weights of 16 bits or fewer, which are computed with in bf16."""


class Ours:
    """A model that decodes case after case."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        in_large_pages()
        self.arguments = arguments
        self.sizes: Decoder = DECODERS[arguments.model].tiny if arguments.tiny else DECODERS[arguments.model]
        made = build_model(decoder(self.sizes), seed=arguments.seed).eval()
        self.model = generating(made, FORMATS[arguments.weights])
        self.gate = Gate(self.model, ALLOWED.get(arguments.weights, ROUNDING))
        model_is_loaded()

    def at(self, batch: int, context: int) -> Worker:
        """The worker of one case, whose first generation is held against the exact model."""
        rows, texts, said = sorted({0, batch - 1}), list[Measured](), dict[str, Any]()

        def generate(prompts: list[list[int]]) -> Stamped:
            step, multiple = self._stepper()
            steps = continued(
                self.model, prompts, sampling=Sampling(temperature=0), max_tokens=NEW, step=step, multiple=multiple
            )
            if said:
                return stamp(next_B.tolist() for next_B, _ in steps)
            kept = Kept(self.model, rows)
            stamped = stamp(next_B.tolist() for next_B in kept.of(steps))
            texts[:] = kept.texts(prompts, [tokens for _, tokens in stamped])
            return stamped

        runs = Generations(generate, self.sizes.vocab, batch, context, NEW, self.arguments.seed)

        def outcome() -> dict[str, Any]:
            if not said:
                said.update(self.gate.outcome(texts))
                texts.clear()
            return {**runs.outcome(), **said}

        return Worker(runs.unit, runs.tokens, self._facts(batch, context), outcome, self.at)

    def _stepper(self) -> tuple[Step, int]:
        if self.arguments.mode == "eager":
            return decode, 1
        return stepper(NEW, MODES[self.arguments.mode])

    def _facts(self, batch: int, context: int) -> dict[str, Any]:
        architecture = self.model.architecture
        shape = Shape(batch=batch, length=1, past=context + NEW // 2)
        return {
            "task": "decode",
            "mode": self.arguments.mode,
            "weights": self.arguments.weights,
            "shape": {**self.sizes.data(), "batch": batch, "prompt": context, "new": NEW},
            "parameters": architecture.cost(shape).active_parameters,
            "bytes_per_step": bytes_per_step(self.model, shape),
            "threads": torch.get_num_threads(),
            "versions": versions("torch", "anyformer"),
        }


def bytes_per_step(model: Transformer, shape: Shape) -> int:
    """Bytes that a step must read: every weight once, of experts those that a batch is expected to choose, and the state.

    Of a matrix in few bits what its kernel reads, which for 4 bits is a scale and an offset of 16 bits for each group.
    """
    tally = model.architecture.cost(shape, model.plan)
    held = {name: read_bytes(value) for name, value in model.named_parameters()}
    states = sum(state.read for state in tally.states.values()) * model.state_type.itemsize // model.plan.activation_bytes

    def share(name: str) -> float:
        weight = tally.weights[name]
        if weight.active == weight.count:
            return 1.0
        experts = weight.shape[0]
        return distinct_experts(experts, round(experts * weight.active / weight.count), shape.batch) / experts

    return round(sum(size * share(name) for name, size in held.items())) + states


def build(arguments: argparse.Namespace) -> Worker:
    """The model and made-up prompts; one unit of work is one generation."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    return Ours(arguments).at(arguments.batch, arguments.context)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("decoding speed of anyformer on the CPU", ["anyformer"])
    decoding_options(parser)
    parser.add_argument("--mode", choices=tuple(MODES), default="default")
    parser.add_argument("--weights", choices=tuple(WEIGHTS), default="bf16")
    run(parser.parse_args(), build)


if __name__ == "__main__":
    main()
