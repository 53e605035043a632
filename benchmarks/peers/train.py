"""Training speed of one peer on the CPU, of a shape of `cases.py`.

    python -m benchmarks.peers.train --peer litgpt --compile --steps 5 --warmup 2 --json
    python -m benchmarks.peers.train --peer transformers --shape encoder --no-compile --serve
    python -m benchmarks.peers.train --peer nanoGPT --shape nanogpt --nanogpt nanoGPT/model.py --compile --json

A step is forward, backward, clipping and AdamW on one fixed batch of random tokens, in bf16 autocast with fp32 weights
(or all in fp32).
Every peer gets the same step, compiled together with its loss where `--compile` asks for it, and by default the attention
in which it is fastest: for 256 tokens on a CPU that is the plain form wherever a peer offers it, since the backward pass
of the fused kernel is slow there.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.batches import FixedBatch, fixed_batch
from benchmarks.cases import IGNORED, TRAININGS, Training
from benchmarks.peers import transformers_models
from benchmarks.protocol import Worker, options, run, versions
from torch import Tensor, nn

FASTEST_ATTENTION = {"litgpt": "sdpa", "transformers": "plain", "x-transformers": "plain", "nanoGPT": "sdpa"}

Logits = Callable[[FixedBatch], Tensor]
Made = tuple[nn.Module, Logits]
"""A module, and its logits of a batch."""


def litgpt(sizes: Training, arguments: argparse.Namespace) -> Made:
    """litgpt: fused query-key-value projection, `LLaMAMLP`, its own initialisation; it offers no plain attention."""
    from litgpt.config import Config
    from litgpt.model import GPT

    config = Config(
        block_size=sizes.length,
        vocab_size=sizes.vocab,
        padded_vocab_size=sizes.vocab,
        n_layer=sizes.depth,
        n_head=sizes.heads,
        n_embd=sizes.width,
        head_size=sizes.width // sizes.heads,
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        intermediate_size=sizes.ffn,
    )
    model = GPT(config)
    model.apply(model._init_weights)
    if sizes.tied:
        model.transformer.wte.weight = model.lm_head.weight
    return model, lambda batch: model(batch.tokens)


def transformers(sizes: Training, arguments: argparse.Namespace) -> Made:
    """transformers: the class of its own, without a cache, which is what its trainer does too."""
    model = transformers_models.trained(sizes, arguments.attention)

    def logits(batch: FixedBatch) -> Tensor:
        decoder = {} if batch.decoder is None else {"decoder_input_ids": batch.decoder}
        found: Tensor = model(input_ids=batch.tokens, **decoder).logits
        return found

    return model, logits


def x_transformers(sizes: Training, arguments: argparse.Namespace) -> Made:
    """x-transformers: rotary on whole heads, RMSNorm, SwiGLU. Its gate projection has a bias that no option removes."""
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=sizes.vocab,
        max_seq_len=sizes.length,
        use_abs_pos_emb=False,
        tie_embedding=sizes.tied,
        attn_layers=Decoder(
            dim=sizes.width,
            depth=sizes.depth,
            heads=sizes.heads,
            attn_dim_head=sizes.width // sizes.heads,
            attn_flash=arguments.attention == "sdpa",
            rotary_pos_emb=True,
            rotary_emb_dim=sizes.width // sizes.heads,
            use_rmsnorm=True,
            ff_mult=sizes.ffn / sizes.width,
            ff_glu=True,
            ff_swish=True,
            ff_no_bias=True,
        ),
    )
    return model, lambda batch: model(batch.tokens)


def nanogpt(sizes: Training, arguments: argparse.Namespace) -> Made:
    """nanoGPT: the classes of the file that is given, with biases as in GPT-2. It computes all logits beside its own loss."""
    theirs = module_of(Path(arguments.nanogpt))
    config = theirs.GPTConfig(
        block_size=sizes.length, vocab_size=sizes.vocab, n_layer=sizes.depth, n_head=sizes.heads, n_embd=sizes.width,
        dropout=0.0, bias=True,
    )  # fmt: skip
    model = theirs.GPT(config)
    # Given targets, it returns the logits of every position and the loss, which a compiler then leaves out.
    return model, lambda batch: model(batch.tokens, batch.targets)[0]


def module_of(path: Path) -> Any:
    """The module in a file. Raises `SystemExit` where there is none."""
    if not path.is_file():
        raise SystemExit(f"there is no file {path}: give the path of nanoGPT's model.py as --nanogpt")
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec is not None, "a path that ends in .py has one"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BUILDERS: dict[str, Callable[[Training, argparse.Namespace], Made]] = {
    "litgpt": litgpt,
    "transformers": transformers,
    "x-transformers": x_transformers,
    "nanoGPT": nanogpt,
}


def build(arguments: argparse.Namespace) -> Worker:
    """The model of `--peer` with its optimiser and batch; one unit of work is one training step."""
    torch.manual_seed(arguments.seed)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    arguments.attention = arguments.attention or FASTEST_ATTENTION[arguments.peer]
    sizes = TRAININGS[arguments.shape].tiny if arguments.tiny else TRAININGS[arguments.shape]
    model, logits = BUILDERS[arguments.peer](sizes, arguments)
    model.train()
    batch = fixed_batch(sizes, arguments.seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    losses: list[float] = []

    def loss_of() -> Tensor:
        flat = logits(batch).flatten(0, 1)
        return F.cross_entropy(
            flat.float() if arguments.float_logits else flat, batch.targets.flatten(), ignore_index=IGNORED
        )  # fmt: skip

    forward = torch.compile(loss_of) if arguments.compile else loss_of

    def step() -> float:
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = forward()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - begin
        losses.append(loss.item())
        return seconds

    def outcome() -> dict[str, Any]:
        if not all(math.isfinite(loss) for loss in losses):
            raise SystemExit(f"the loss is not finite: {losses}")
        return {"first_losses": [round(loss, 4) for loss in losses[:3]], "last_loss": round(losses[-1], 4)}

    facts: dict[str, Any] = {
        "task": "train",
        "mode": "compiled" if arguments.compile else "eager",
        "precision": arguments.precision,
        "attention": arguments.attention,
        "float_logits": arguments.float_logits,
        "shape": {**sizes.data(), "name": arguments.shape},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "threads": torch.get_num_threads(),
        "versions": versions("torch", arguments.peer),
    }
    return Worker(step, sizes.tokens, facts, outcome)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("training speed of one peer on the CPU", list(BUILDERS))
    parser.add_argument("--shape", choices=tuple(TRAININGS), default="small")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16", help="of products; weights are fp32")
    parser.add_argument("--attention", choices=("sdpa", "plain"), help="default: the peer's fastest")
    parser.add_argument("--float-logits", action="store_true", help="cast logits to fp32 before the loss")
    parser.add_argument("--nanogpt", metavar="MODEL.PY", help="where nanoGPT's model.py is")
    parser.add_argument("--tiny", action="store_true", help="a small model of the same kind, for a rehearsal")
    arguments = parser.parse_args()
    if arguments.peer == "litgpt" and arguments.attention == "plain":
        parser.error("litgpt offers only sdpa attention")
    if arguments.peer == "nanoGPT" and arguments.nanogpt is None:
        parser.error("nanoGPT is in no package index: give the path of its model.py as --nanogpt")
    run(arguments, build)


if __name__ == "__main__":
    main()
