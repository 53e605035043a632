"""Decoding speed of one peer on the CPU, of a model of `cases.py`.

    python -m benchmarks.peers.decode --peer litgpt --mode compiled --weights bf16 --steps 3 --json
    python -m benchmarks.peers.decode --peer transformers --model mla --batch 16 --context 2048 --steps 1
    python -m benchmarks.peers.decode --peer llama.cpp --weights q8_0 --serve

One unit of work is one greedy generation of 64 tokens for each row. Counted is the steady part only: from the first new token,
which the prefill yields, to the last. Every peer runs its own generation loop; llama.cpp, whose own takes one sequence, its
batches of several sequences.

Modes of the PyTorch peers: `eager`; `compiled` (torch.compile, for transformers with its static cache); `frozen` (the
same with inductor's weight freezing); `tuned` (frozen, with autotuned kernels). llama.cpp knows only `native`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config
from benchmarks.cases import DECODERS, NEW, ON_ENGINE, WEIGHTS, Decoder
from benchmarks.generations import Generate, Generations, Stamped, decoding_options, stamp
from benchmarks.peers import transformers_models
from benchmarks.protocol import Worker, options, run, versions

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
PACKAGES = {"litgpt": "litgpt", "transformers": "transformers", "llama.cpp": "llama-cpp-python"}
At = Callable[[int, int], Generate]
"""Generations of a batch whose prompts are so long."""


@dataclass(frozen=True)
class Peer:
    """A model of a peer: its generations, and the parameters that a token uses."""

    at: At
    parameters: int


def transformers(sizes: Decoder, arguments: argparse.Namespace) -> Peer:
    """transformers: `model.generate`, watched by a streamer; compiling needs its static cache."""
    from transformers import CompileConfig
    from transformers.generation.streamers import BaseStreamer

    model: Any = transformers_models.decoder(sizes, 4096, dtype=DTYPES[arguments.weights])
    settings: dict[str, Any] = {"do_sample": False, "max_new_tokens": NEW, "cache_implementation": "dynamic"}
    if arguments.mode != "eager":
        compilation = CompileConfig(mode="default")
        compilation._compile_all_devices = True  # without it, generate compiles on accelerators only
        settings |= {"cache_implementation": "static", "compile_config": compilation}

    class Stamps(BaseStreamer):
        """Collects what `generate` reports: first the prompts, then one token of each row per call, with the time of each."""

        def __init__(self) -> None:
            self.seen: Stamped = []
            self.prompted = False

        def put(self, value: torch.Tensor) -> None:
            if self.prompted:
                self.seen.append((time.perf_counter(), value.flatten().tolist()))
            self.prompted = True

        def end(self) -> None:
            return

    def generate(prompts: list[list[int]]) -> Stamped:
        stamps = Stamps()
        ids = torch.tensor(prompts)
        model.generate(ids, attention_mask=torch.ones_like(ids), streamer=stamps, **settings)
        return stamps.seen

    return Peer(lambda batch, context: generate, transformers_models.active(model, sizes))


def litgpt(sizes: Decoder, arguments: argparse.Namespace) -> Peer:
    """litgpt: its `generate_fn` over a static cache, with `next_token` compiled as its own command does it."""
    from litgpt.config import Config
    from litgpt.generate import base
    from litgpt.model import GPT

    if sizes.latents is not None or sizes.experts > 1:
        raise SystemExit("litgpt has no latent attention, and decodes no experts here")
    config = Config(
        block_size=4096,
        vocab_size=sizes.vocab,
        padded_vocab_size=sizes.vocab,
        n_layer=sizes.depth,
        n_head=sizes.heads,
        n_query_groups=sizes.kv_heads,
        n_embd=sizes.width,
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        intermediate_size=sizes.ffn,
    )
    model = GPT(config)
    model.apply(model._init_weights)
    model.transformer.wte.weight = model.lm_head.weight
    model = model.to(DTYPES[arguments.weights]).eval()
    if arguments.mode != "eager":
        base.next_token = torch.compile(base.next_token)

    def at(batch: int, context: int) -> Generate:
        if batch > 1:
            raise SystemExit("litgpt's generate takes one sequence")
        model.clear_kv_cache()
        model.max_seq_length = context + NEW
        model.set_kv_cache(batch_size=1, dtype=DTYPES[arguments.weights])

        def generate(prompts: list[list[int]]) -> Stamped:
            ids = torch.tensor(prompts[0])
            tokens = base.generate_fn(model, ids, context + NEW, temperature=0.0, include_prompt=False, include_eos=True)
            return stamp([int(token)] for token in tokens)

        return generate

    return Peer(at, sum(parameter.numel() for parameter in model.parameters()))


def llama_cpp(sizes: Decoder, arguments: argparse.Namespace) -> Peer:
    """llama.cpp through its Python binding, on a file of random weights that is removed once loaded."""
    from benchmarks.peers.llama_cpp_model import LlamaCpp

    model = LlamaCpp(sizes, arguments.weights, arguments.seed, torch.get_num_threads())
    return Peer(model.at, model.parameters)


BUILDERS: dict[str, Callable[[Decoder, argparse.Namespace], Peer]] = {
    "transformers": transformers,
    "litgpt": litgpt,
    "llama.cpp": llama_cpp,
}


def build(arguments: argparse.Namespace) -> Worker:
    """The model of `--peer` and made-up prompts; one unit of work is one generation."""
    torch.manual_seed(arguments.seed)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch._inductor.config.freezing = arguments.mode in ("frozen", "tuned")
    torch._inductor.config.max_autotune = arguments.mode == "tuned"
    sizes = DECODERS[arguments.model].tiny if arguments.tiny else DECODERS[arguments.model]
    peer = BUILDERS[arguments.peer](sizes, arguments)

    def at(batch: int, context: int) -> Worker:
        runs = Generations(peer.at(batch, context), sizes.vocab, batch, context, NEW, arguments.seed)
        facts: dict[str, Any] = {
            "task": "decode",
            "mode": arguments.mode,
            "weights": arguments.weights,
            "shape": {**sizes.data(), "batch": batch, "prompt": context, "new": NEW},
            "parameters": peer.parameters,
            "threads": torch.get_num_threads(),
            "versions": versions("torch", PACKAGES[arguments.peer]),
        }
        return Worker(runs.unit, runs.tokens, facts, runs.outcome, at)

    return at(arguments.batch, arguments.context)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("decoding speed of one peer on the CPU", list(BUILDERS))
    decoding_options(parser)
    parser.add_argument("--mode", choices=("eager", "compiled", "frozen", "tuned", "native"), default=None)
    parser.add_argument("--weights", choices=sorted({*WEIGHTS.values(), *ON_ENGINE.values()}), default="bf16")
    arguments = parser.parse_args()
    native = arguments.peer == "llama.cpp"
    arguments.mode = arguments.mode or ("native" if native else "eager")
    if native != (arguments.mode == "native"):
        parser.error("native is the mode of llama.cpp, and its only one")
    if not native and arguments.weights not in DTYPES:
        parser.error("quantised weights are for llama.cpp")
    run(arguments, build)


if __name__ == "__main__":
    main()
