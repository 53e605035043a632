"""Decoding speed of one peer on the CPU: a Llama of 110 M parameters, one sequence, see `SHAPE`.

    python -m benchmarks.peers.decode --peer litgpt --mode compiled --weights bf16 --steps 3 --json
    python -m benchmarks.peers.decode --peer llama.cpp --weights q8_0 --serve

One unit of work is one greedy generation of 64 tokens after a prompt of 64. Counted is the steady part only: from the
first new token, which the prefill yields, to the last. Every peer runs its own generation loop.

Modes of the PyTorch peers: `eager`; `compiled` (torch.compile, for transformers with its static cache); `frozen` (the
same with inductor's weight freezing); `tuned` (frozen, with autotuned kernels). llama.cpp knows only `native`.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from benchmarks.protocol import Worker, options, run, versions
from torch import nn

SHAPE: dict[str, int] = {"width": 768, "depth": 12, "heads": 12, "ffn": 2048, "vocab": 32000}
PROMPT, NEW = 64, 64
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
PACKAGES = {"litgpt": "litgpt", "transformers": "transformers", "llama.cpp": "llama-cpp-python"}

Stamped = list[tuple[float, int]]
"""New tokens in order, each with the moment it was known."""
Generate = Callable[[list[int]], Stamped]


def transformers(arguments: argparse.Namespace) -> tuple[Generate, int]:
    """transformers: `model.generate`, watched by a streamer; compiling needs its static cache."""
    from transformers import AutoModelForCausalLM, CompileConfig, LlamaConfig
    from transformers.generation.streamers import BaseStreamer

    config = LlamaConfig(
        vocab_size=SHAPE["vocab"],
        hidden_size=SHAPE["width"],
        intermediate_size=SHAPE["ffn"],
        num_hidden_layers=SHAPE["depth"],
        num_attention_heads=SHAPE["heads"],
        max_position_embeddings=PROMPT + NEW,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    model = AutoModelForCausalLM.from_config(config, dtype=DTYPES[arguments.weights]).eval()
    settings: dict[str, Any] = {"do_sample": False, "max_new_tokens": NEW, "cache_implementation": "dynamic"}
    if arguments.mode != "eager":
        compilation = CompileConfig(mode="default")
        compilation._compile_all_devices = True  # without it, generate compiles on accelerators only
        settings |= {"cache_implementation": "static", "compile_config": compilation}

    class Stamps(BaseStreamer):
        """Collects what `generate` reports: first the prompt, then one token per call, with the time of each."""

        def __init__(self) -> None:
            self.seen: Stamped = []

        def put(self, value: torch.Tensor) -> None:
            if value.numel() == 1:
                self.seen.append((time.perf_counter(), int(value)))

        def end(self) -> None:
            return

    def generate(prompt: list[int]) -> Stamped:
        stamps = Stamps()
        ids = torch.tensor([prompt])
        model.generate(ids, attention_mask=torch.ones_like(ids), streamer=stamps, **settings)
        return stamps.seen

    return generate, parameters(model)


def litgpt(arguments: argparse.Namespace) -> tuple[Generate, int]:
    """litgpt: its `generate_fn` over a static cache, with `next_token` compiled as its own command does it."""
    from litgpt.config import Config
    from litgpt.generate import base
    from litgpt.model import GPT

    config = Config(
        block_size=PROMPT + NEW,
        vocab_size=SHAPE["vocab"],
        padded_vocab_size=SHAPE["vocab"],
        n_layer=SHAPE["depth"],
        n_head=SHAPE["heads"],
        n_embd=SHAPE["width"],
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        intermediate_size=SHAPE["ffn"],
    )
    model = GPT(config)
    model.apply(model._init_weights)
    model.transformer.wte.weight = model.lm_head.weight
    model = model.to(DTYPES[arguments.weights]).eval()
    model.set_kv_cache(batch_size=1, dtype=DTYPES[arguments.weights])
    if arguments.mode != "eager":
        base.next_token = torch.compile(base.next_token)

    def generate(prompt: list[int]) -> Stamped:
        ids = torch.tensor(prompt)
        tokens = base.generate_fn(model, ids, PROMPT + NEW, temperature=0.0, include_prompt=False, include_eos=True)
        return stamp(int(token) for token in tokens)

    return generate, parameters(model)


def llama_cpp(arguments: argparse.Namespace) -> tuple[Generate, int]:
    """llama.cpp through its Python binding, on a file of random weights that is removed once loaded."""
    from benchmarks.peers import gguf_file
    from llama_cpp import Llama

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.gguf"
        size = gguf_file.write(path, SHAPE, PROMPT + NEW, arguments.weights, arguments.seed)
        model = Llama(str(path), n_ctx=PROMPT + NEW, n_threads=torch.get_num_threads(), use_mmap=False, verbose=False)

    def generate(prompt: list[int]) -> Stamped:
        return stamp(itertools.islice(model.generate(prompt, temp=0.0), NEW))

    return generate, size


def stamp(tokens: Iterable[int]) -> Stamped:
    """Draw `tokens` one by one and note when each arrived."""
    return [(time.perf_counter(), token) for token in tokens]


def parameters(model: nn.Module) -> int:
    """Parameters, a tied matrix counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


BUILDERS: dict[str, Callable[[argparse.Namespace], tuple[Generate, int]]] = {
    "transformers": transformers,
    "litgpt": litgpt,
    "llama.cpp": llama_cpp,
}


def build(arguments: argparse.Namespace) -> Worker:
    """The model of `--peer` and a random prompt; one unit of work is one generation."""
    torch.manual_seed(arguments.seed)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch._inductor.config.freezing = arguments.mode in ("frozen", "tuned")
    torch._inductor.config.max_autotune = arguments.mode == "tuned"
    generate, size = BUILDERS[arguments.peer](arguments)
    prompt = torch.randint(3, SHAPE["vocab"], (PROMPT,)).tolist()
    generations: list[list[int]] = []

    def unit() -> float:
        stamped = generate(prompt)
        generations.append([token for _, token in stamped])
        return stamped[-1][0] - stamped[0][0]

    def outcome() -> dict[str, Any]:
        if any(len(tokens) != NEW or not all(0 <= token < SHAPE["vocab"] for token in tokens) for tokens in generations):
            raise SystemExit(f"a generation is not {NEW} tokens of the vocabulary: {generations}")
        return {"first_tokens": generations[-1][:8], "repeatable": all(tokens == generations[0] for tokens in generations)}

    facts: dict[str, Any] = {
        "task": "decode",
        "mode": arguments.mode,
        "weights": arguments.weights,
        "shape": {**SHAPE, "prompt": PROMPT, "new": NEW},
        "parameters": size,
        "threads": torch.get_num_threads(),
        "versions": versions("torch", PACKAGES[arguments.peer]),
    }
    return Worker(unit, NEW - 1, facts, outcome)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("decoding speed of one peer on the CPU", list(BUILDERS))
    parser.add_argument("--mode", choices=("eager", "compiled", "frozen", "tuned", "native"), default=None)
    parser.add_argument("--weights", choices=("f32", "bf16", "q8_0", "q4_0"), default="bf16")
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
