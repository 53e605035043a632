"""Training speed of one peer on the CPU: a Llama-like model of 12 M parameters, see `SHAPE`.

    python -m benchmarks.peers.train --peer litgpt --compile --steps 5 --warmup 2 --json
    python -m benchmarks.peers.train --peer transformers --no-compile --serve

A step is forward, backward, clipping and AdamW on one fixed batch of random tokens, in bf16 autocast with fp32 weights
(or all in fp32).
Every peer gets the same step, compiled together with its loss where `--compile` asks for it, and by default the attention
in which it is fastest: for 256 tokens on a CPU that is the plain form wherever a peer offers it, since the backward pass
of the fused kernel is slow there.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.protocol import Worker, options, run, versions
from torch import Tensor, nn

SHAPE: dict[str, int] = {"width": 384, "depth": 6, "heads": 6, "head_dim": 64, "ffn": 1024, "vocab": 4096}
BATCH, LENGTH = 16, 256

FASTEST_ATTENTION = {"litgpt": "sdpa", "transformers": "plain", "x-transformers": "plain"}

Logits = Callable[[Tensor], Tensor]


def litgpt(attention: str) -> tuple[nn.Module, Logits]:
    """litgpt: fused query-key-value projection, `LLaMAMLP`, its own initialisation; it offers no plain attention."""
    from litgpt.config import Config
    from litgpt.model import GPT

    if attention != "sdpa":
        raise SystemExit("litgpt offers only sdpa attention")
    config = Config(
        block_size=LENGTH,
        vocab_size=SHAPE["vocab"],
        padded_vocab_size=SHAPE["vocab"],
        n_layer=SHAPE["depth"],
        n_head=SHAPE["heads"],
        n_embd=SHAPE["width"],
        head_size=SHAPE["head_dim"],
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        intermediate_size=SHAPE["ffn"],
    )
    model = GPT(config)
    model.apply(model._init_weights)
    return model, model


def transformers(attention: str) -> tuple[nn.Module, Logits]:
    """transformers: `LlamaForCausalLM` without a cache, which is what its trainer does too."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=SHAPE["vocab"],
        hidden_size=SHAPE["width"],
        intermediate_size=SHAPE["ffn"],
        num_hidden_layers=SHAPE["depth"],
        num_attention_heads=SHAPE["heads"],
        head_dim=SHAPE["head_dim"],
        max_position_embeddings=LENGTH,
        tie_word_embeddings=False,
        use_cache=False,
        attn_implementation="sdpa" if attention == "sdpa" else "eager",
    )
    model = LlamaForCausalLM(config)
    return model, lambda tokens: model(input_ids=tokens).logits


def x_transformers(attention: str) -> tuple[nn.Module, Logits]:
    """x-transformers: rotary on whole heads, RMSNorm, SwiGLU. Its gate projection has a bias that no option removes."""
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=SHAPE["vocab"],
        max_seq_len=LENGTH,
        use_abs_pos_emb=False,
        attn_layers=Decoder(
            dim=SHAPE["width"],
            depth=SHAPE["depth"],
            heads=SHAPE["heads"],
            attn_dim_head=SHAPE["head_dim"],
            attn_flash=attention == "sdpa",
            rotary_pos_emb=True,
            rotary_emb_dim=SHAPE["head_dim"],
            use_rmsnorm=True,
            ff_mult=SHAPE["ffn"] / SHAPE["width"],
            ff_glu=True,
            ff_swish=True,
            ff_no_bias=True,
        ),
    )
    return model, model


BUILDERS: dict[str, Callable[[str], tuple[nn.Module, Logits]]] = {
    "litgpt": litgpt,
    "transformers": transformers,
    "x-transformers": x_transformers,
}


def build(arguments: argparse.Namespace) -> Worker:
    """The model of `--peer` with its optimiser and batch; one unit of work is one training step."""
    torch.manual_seed(arguments.seed)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    attention = arguments.attention or FASTEST_ATTENTION[arguments.peer]
    model, logits = BUILDERS[arguments.peer](attention)
    model.train()
    tokens = torch.randint(SHAPE["vocab"], (BATCH, LENGTH + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    losses: list[float] = []

    def loss_of(tokens: Tensor, targets: Tensor) -> Tensor:
        flat = logits(tokens).flatten(0, 1)
        return F.cross_entropy(flat.float() if arguments.float_logits else flat, targets)

    forward = torch.compile(loss_of) if arguments.compile else loss_of

    def step() -> float:
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = forward(inputs, targets)
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
        "attention": attention,
        "float_logits": arguments.float_logits,
        "shape": {**SHAPE, "batch": BATCH, "length": LENGTH},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "threads": torch.get_num_threads(),
        "versions": versions("torch", arguments.peer),
    }
    return Worker(step, BATCH * LENGTH, facts, outcome)


def main() -> None:
    """Parse the options and hand over to the shared protocol."""
    parser = options("training speed of one peer on the CPU", list(BUILDERS))
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16", help="of products; weights are fp32")
    parser.add_argument("--attention", choices=("sdpa", "plain"), help="default: the peer's fastest")
    parser.add_argument("--float-logits", action="store_true", help="cast logits to fp32 before the loss")
    run(parser.parse_args(), build)


if __name__ == "__main__":
    main()
