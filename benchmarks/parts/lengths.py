"""How time grows with the length, and with the cache."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from benchmarks.parts.race import race, ratio, seconds
from benchmarks.parts.sides import Alone, features

from anyformer.parts import Attention, Causal, EluPlusOne, Fixed, LinearAttention, Window
from anyformer.parts.attention.attend import attend
from anyformer.parts.call.context import Visible
from anyformer.parts.sublayer import Sublayer
from anyformer.tally import Shape

WIDTH, HEADS = 384, 6
LENGTHS = (1024, 2048, 4096, 8192, 16_384, 32_768)
KINDS: dict[str, Sublayer] = {
    "linear attention": LinearAttention(heads=HEADS, feature_map=EluPlusOne(), eps=1e-6),
    "softmax attention": Attention(heads=HEADS),
}


def lengths() -> dict[str, Any]:
    """Forward seconds of one layer by length, the best of three, and how the time grows: the slope in logarithms."""
    found: dict[str, Any] = {"shape": f"1 x T x {WIDTH}, {HEADS} heads, forward", "seconds": {}, "grows_as_T_to_the": {}}
    with torch.inference_mode():
        for name, part in KINDS.items():
            layer = Alone(part, WIDTH)
            for parameter in layer.parameters():
                parameter.normal_(std=0.02)
            times = {}
            for length in LENGTHS:
                x = features(1, length, WIDTH)
                layer(x)
                times[length] = round(min(seconds(lambda x=x, layer=layer: layer(x)) for _ in range(3)), 4)
            found["seconds"][name] = times
            found["grows_as_T_to_the"][name] = round(slope(times), 3)
    return found


def slope(times: dict[int, float]) -> float:
    """Least squares of log(seconds) on log(T)."""
    x, y = [math.log(t) for t in times], [math.log(s) for s in times.values()]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread


def one_query() -> dict[str, float]:
    """Seconds of torch's kernel over those of the kernel we choose, for one query of 12 heads over its cache."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        for compiled in (False, True):
            for length in (512, 2048):
                torch.compiler.reset()
                query, keys = (features(1, 12 * n, 64).view(1, 12, n, 64).to(dtype) for n in (1, length))
                allowed = Visible(torch.ones(1, 1, 1, length, dtype=torch.bool))
                works = {}
                for kernel in ("auto", "sdpa"):
                    work = partial(attend, query, keys, keys, allowed, scale=0.125, kernel=kernel)
                    works[kernel] = torch.compile(work, dynamic=False) if compiled else work
                    works[kernel]()
                with torch.inference_mode():
                    times = race(works)
                how = f"{str(dtype).removeprefix('torch.')}, {length} keys{', compiled' if compiled else ''}"
                found[how] = ratio(times, "sdpa", "auto")
    return found


def masks() -> dict[str, float]:
    """Milliseconds to count the allowed pairs of 131,072 positions."""
    shape = Shape(length=131_072)
    found = {"causal": Causal(), "causal & window": Causal() & Window(size=4096), "causal & fixed": Causal() & Fixed(size=128)}
    return {
        name: round(1000 * min(seconds(lambda m=mask: m.pairs(shape)) for _ in range(3)), 2) for name, mask in found.items()
    }
