"""Decoding speed of anyformer on another engine (`anyformer generate --engine`), of a model of `cases.py`.

    python -m benchmarks.ours_engine --peer anyformer --engine llama.cpp --model gqa --weights f32 --steps 3 --json

As `ours_decode`, with the logits of an engine that is named: choosing tokens and all around it is ours. Its gate is the proof
by which the package takes an engine: it holds the engine's file against the model itself first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from benchmarks.cases import DECODERS, NEW, WEIGHTS
from benchmarks.generations import Generations, decoding_options, stamp
from benchmarks.ours_decode import FORMATS
from benchmarks.ours_models import decoder
from benchmarks.protocol import Worker, options, run, versions

from anyformer import checkpoint, engines
from anyformer.generation import Sampling
from anyformer.generation.continuous_batching import served
from anyformer.loading import load
from anyformer.model.transformer import build as build_model
from anyformer.operations import Shape

STORED = {"f32": torch.float32}
"""How the weights of a checkpoint are stored, for which bf16 is usual."""


class OnEngine:
    """A model that an engine decodes, case after case."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.sizes = DECODERS[arguments.model].tiny if arguments.tiny else DECODERS[arguments.model]
        with tempfile.TemporaryDirectory() as folder:  # whose file stays in memory
            os.environ["ANYFORMER_CACHE"] = str(Path(folder) / "cache")
            place = Path(folder) / "model"
            made = build_model(decoder(self.sizes), seed=arguments.seed).eval()
            checkpoint.save(made.to(STORED.get(arguments.weights, torch.bfloat16)), place)
            loading = engines.ModelLoading(place, lambda: load(place))
            asked = engines.Asked(place, loading, FORMATS[arguments.weights])
            try:
                self.opened = engines.opened(arguments.engine, asked)
            except engines.EngineRefusedError as error:
                raise SystemExit(str(error)) from None

    def at(self, batch: int, context: int) -> Worker:
        """The worker of one case."""
        places = self.opened.places
        if places is None:
            raise SystemExit(f"{self.arguments.engine} is the own engine here: `ours_decode` measures it")

        def generate(prompts: list[list[int]]) -> Any:
            steps = served(
                places(prompts, batch, NEW), prompts, sampling=Sampling(temperature=0), max_tokens=NEW, ended=lambda row: False
            )
            return stamp([token.number for token in step] for step in steps)

        runs = Generations(generate, self.sizes.vocab, batch, context, NEW, self.arguments.seed)
        shape = Shape(batch=batch, length=1, past=context + NEW // 2)
        facts = {
            "task": "decode", "mode": self.arguments.engine, "weights": self.arguments.weights, "proof": self.opened.line,
            "shape": {**self.sizes.data(), "batch": batch, "prompt": context, "new": NEW},
            "parameters": self.opened.model.architecture.cost(shape).active_parameters,
            "threads": torch.get_num_threads(), "versions": versions("torch", "anyformer", "llama-cpp-python"),
        }  # fmt: skip
        return Worker(runs.unit, runs.tokens, facts, lambda: {**runs.outcome(), "proof": self.opened.line}, self.at)


def build(arguments: argparse.Namespace) -> Worker:
    """The model and made-up prompts; one unit of work is one generation."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    return OnEngine(arguments).at(arguments.batch, arguments.context)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("decoding speed of anyformer on another engine", ["anyformer"])
    decoding_options(parser)
    parser.add_argument("--engine", choices=engines.NAMES, default="llama.cpp")
    parser.add_argument("--weights", choices=tuple(WEIGHTS), default="bf16")
    run(parser.parse_args(), build)


if __name__ == "__main__":
    main()
