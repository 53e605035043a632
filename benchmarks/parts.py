"""Fast paths of parts against their plain forms, in one process, turn by turn.

    python -m benchmarks.parts

Writes benchmarks/results/parts.json and parts.png. Each comparison is checked for equal results first; ratios are medians
over rounds of the ratio within a round. In fp32, forward and backward where it says so.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import torch
from benchmarks.compare import RESULTS, machine
from torch import Tensor

from anyformer.model import Transformer, build, decoder_only
from anyformer.parts import (
    Attention,
    Causal,
    EluPlusOne,
    Embedding,
    Experts,
    FeedForward,
    Fixed,
    LatentAttention,
    LinearAttention,
    RMSNorm,
    Rotary,
    Window,
    pre_norm,
)
from anyformer.parts.sublayer import SublayerValue
from anyformer.plan import Plan
from anyformer.tally import Shape

WIDTH, ROUNDS = 384, 5


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def against(fast: Callable[[], object], plain: Callable[[], object], rounds: int = ROUNDS) -> dict[str, float]:
    """Median seconds of each, and the median ratio plain / fast."""
    fast(), plain()
    times = [(seconds(fast), seconds(plain)) for _ in range(rounds)]
    return {
        "seconds": round(statistics.median(a for a, _ in times), 5),
        "plain_seconds": round(statistics.median(b for _, b in times), 5),
        "faster_by": round(statistics.median(b / a for a, b in times), 3),
    }


def model_of(sublayer: SublayerValue, plan: Plan | None = None) -> Transformer:
    """One layer of nothing else, on features that a small embedding gives."""
    return build(decoder_only(Embedding(vocab=256), WIDTH, [pre_norm(RMSNorm(), sublayer)]), plan or Plan())  # type: ignore[arg-type]


def tokens_of(length: int, rows: int = 1) -> Tensor:
    return torch.randint(0, 256, (rows, length), generator=torch.Generator().manual_seed(0))


def trained(model: Transformer, tokens: Tensor) -> Callable[[], object]:
    """Forward and backward of the features."""

    def step() -> None:
        model.features(tokens).square().mean().backward()
        model.zero_grad(set_to_none=True)

    return step


def experts() -> dict[str, Any]:
    """8 experts, 2 of them for each of 4,096 tokens, against the dense network of equal active width."""
    routed = model_of(Experts(experts=8, chosen=2, width=512))
    dense = model_of(FeedForward(width=1024))
    tokens = tokens_of(256, 16)
    shape = Shape(batch=16, length=256)
    flops = [model.architecture.cost(shape).total_flops.dense for model in (routed, dense)]
    measured = against(trained(dense, tokens), trained(routed, tokens))
    return {"dense": measured, "experts_over_dense": measured["faster_by"], "flops_ratio": round(flops[0] / flops[1], 4)}


def lengths() -> dict[str, Any]:
    """Forward time of linear and of softmax attention by length."""
    kinds = {"linear": LinearAttention(heads=6, feature_map=EluPlusOne(), eps=1e-6), "softmax": Attention(heads=6)}
    rows: dict[str, dict[int, float]] = {}
    for name, part in kinds.items():
        model = model_of(part).eval()
        rows[name] = {}
        for length in (1024, 2048, 4096, 8192, 16_384, 32_768):
            if name == "softmax" and length > 16_384:
                continue
            tokens = tokens_of(length)
            with torch.inference_mode():
                model.features(tokens)
                rows[name][length] = round(min(seconds(lambda t=tokens, m=model: m.features(t)) for _ in range(3)), 4)
    return rows


def latent() -> dict[str, Any]:
    """One token of latent attention at 4,096 cached positions: absorbed, against expanding every cached latent."""
    part = LatentAttention(heads=6, kv_rank=128, nope_width=64, rope_width=32, value_width=64, rotary=Rotary(), norm=RMSNorm())
    model = model_of(part).eval()
    module = model.get_submodule("decoder.layers.0.latent_attention.sublayer")
    state = model.state(1, 4200)
    with torch.inference_mode():
        model.features(tokens_of(4096), state=state)

        def token() -> Tensor:
            y = model.features(tokens_of(1), state=state)
            state.trim(1)
            return y

        absorbed, expanded = module._absorbed, module._expanded

        def plainly() -> Tensor:
            module._absorbed = expanded  # type: ignore[assignment]
            y = token()
            module._absorbed = absorbed  # type: ignore[assignment]
            return y

        torch.testing.assert_close(token(), plainly(), rtol=1e-3, atol=1e-4)
        return against(token, plainly)


def masks() -> dict[str, float]:
    """Milliseconds to count the allowed pairs of 131,072 positions."""
    shape = Shape(length=131_072)
    found = {"causal": Causal(), "causal & window": Causal() & Window(size=4096), "causal & fixed": Causal() & Fixed(size=128)}
    return {
        name: round(1000 * min(seconds(lambda m=mask: m.pairs(shape)) for _ in range(3)), 2) for name, mask in found.items()
    }


def draw(rows: dict[str, Any]) -> None:
    """Time against length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for name, times in rows.items():
        axes.plot(list(times), list(times.values()), "o-", label=f"{name} attention")
    axes.set(xscale="log", yscale="log", xlabel="length", ylabel="seconds, forward, one layer")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(RESULTS / "parts.png")


def main() -> None:
    """Measure, print, write."""
    record = {
        "date": date.today().isoformat(), "machine": machine(), "torch": torch.__version__,
        "experts": experts(), "lengths": lengths(), "latent": latent(), "mask_milliseconds": masks(),
    }  # fmt: skip
    print(json.dumps(record, indent=1))
    (RESULTS / "parts.json").write_text(json.dumps(record, indent=1) + "\n")
    draw(record["lengths"])


if __name__ == "__main__":
    main()
