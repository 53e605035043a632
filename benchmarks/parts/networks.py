"""Feed-forward networks, mixtures of experts and norms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.parts.race import Comparison, race, ratio
from benchmarks.parts.sides import Alone, Read, Side, features, ours, sides
from torch import Tensor, nn
from transformers import LlamaConfig, MixtralConfig, Qwen3MoeConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

from anyformer.operations import Shape
from anyformer.parts import Experts, FeedForward, Renormalise, RMSNorm, Router
from anyformer.plan import Plan

WIDTH, EXPERTS, CHOSEN, EXPERT_WIDTH = 384, 8, 2, 512
BATCH, LENGTH = 16, 256
TOKENS = f"{BATCH} x {LENGTH} x {WIDTH}"
PART = Experts(experts=EXPERTS, chosen=CHOSEN, width=EXPERT_WIDTH, router=Router(renormalise=Renormalise(eps=0.0)))
IMPLEMENTATIONS = ("eager", "grouped_mm", "batched_mm")
TOO_LARGE = {"batched_mm": "copies the experts' weights for every token: 13 GB at this shape"}


class EveryExpert(nn.Module):
    """The plain twin: every expert reads every token, and those not chosen weigh nothing."""

    def __init__(self, weights: nn.Module) -> None:
        super().__init__()
        self.of = weights

    def forward(self, x_BTD: Tensor) -> Tensor:
        scores = F.linear(x_BTD, self.of.get_parameter("router.weight")).softmax(-1)
        best, chosen = scores.topk(CHOSEN, -1)
        share = torch.zeros_like(scores).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
        gate, up, down = (self.of.get_parameter(name) for name in ("gate", "up", "down"))
        y = torch.zeros_like(x_BTD)
        for x in range(EXPERTS):
            y = y + share[..., x : x + 1] * F.linear(F.silu(F.linear(x_BTD, gate[x])) * F.linear(x_BTD, up[x]), down[x])
        return y


def stacked(read: Read) -> Mapping[str, Tensor]:
    """transformers keeps gate and up of an expert in one matrix."""
    gate, up = read("experts.gate_up_proj").split(EXPERT_WIDTH, 1)
    return {"router.weight": read("gate.weight"), "gate": gate, "up": up, "down": read("experts.down_proj")}


def blocks(implementations: tuple[str, ...]) -> list[Side]:
    """Mixtral's block with each implementation, and Qwen3-MoE's with the first."""
    shared = {"hidden_size": WIDTH, "num_experts_per_tok": CHOSEN}
    sides_of = []
    for name in implementations:
        config = MixtralConfig(num_local_experts=EXPERTS, intermediate_size=EXPERT_WIDTH, **shared)
        config._experts_implementation = name
        sides_of.append(Side(f"transformers MixtralSparseMoeBlock, {name}", MixtralSparseMoeBlock(config), stacked))
    config = Qwen3MoeConfig(num_experts=EXPERTS, moe_intermediate_size=EXPERT_WIDTH, norm_topk_prob=True, **shared)
    config._experts_implementation = implementations[-1]
    block = Qwen3MoeSparseMoeBlock(config)
    return [*sides_of, Side(f"transformers Qwen3MoeSparseMoeBlock, {implementations[-1]}", block, stacked)]


def experts(*, compiled: bool) -> Comparison:
    """4,096 tokens, forward and backward."""
    others = blocks(("eager", "grouped_mm")[compiled:])
    if not compiled:
        weights = Alone(PART, WIDTH).part
        others.append(Side("every expert on every token", weights, call=EveryExpert(weights), kind="twin"))
    missing = {f"transformers MixtralSparseMoeBlock, {name}": why for name, why in TOO_LARGE.items()}
    shape = f"{CHOSEN} of {EXPERTS} experts of {EXPERT_WIDTH}: {TOKENS}"
    return sides(shape, ours(Alone(PART, WIDTH)), others, features(BATCH, LENGTH, WIDTH), compiled=compiled, missing=missing)


def few_tokens(count: int) -> Comparison:
    """As in decoding: `count` rows of one token, forward."""
    shape = f"{CHOSEN} of {EXPERTS} experts of {EXPERT_WIDTH}: {count} x 1 x {WIDTH}"
    return sides(shape, ours(Alone(PART, WIDTH)), blocks(IMPLEMENTATIONS), features(count, 1, WIDTH), train=False)


def feedforward(*, compiled: bool) -> Comparison:
    """Gated, silu."""
    width = 1024
    theirs = LlamaMLP(LlamaConfig(hidden_size=WIDTH, intermediate_size=width))
    peer = Side(
        "transformers LlamaMLP", theirs,
        lambda read: {f"{name}.weight": read(f"{name}_proj.weight") for name in ("gate", "up", "down")},
    )  # fmt: skip
    shape = f"gated, {width}: {TOKENS}"
    return sides(shape, ours(Alone(FeedForward(width=width), WIDTH)), [peer], features(BATCH, LENGTH, WIDTH), compiled=compiled)


def norm(*, compiled: bool) -> Comparison:
    """RMSNorm."""
    us = RMSNorm(eps=1e-5).build(WIDTH)
    others = [
        Side("torch.nn.RMSNorm", nn.RMSNorm(WIDTH, eps=1e-5)),
        Side("transformers LlamaRMSNorm", LlamaRMSNorm(WIDTH, eps=1e-5)),
    ]
    return sides(TOKENS, Side("anyformer", us, kind="ours"), others, features(BATCH, LENGTH, WIDTH), compiled=compiled)


def price() -> dict[str, Any]:
    """Experts over a dense network of equal active width, forward and backward of 4,096 tokens."""
    parts = {"experts": PART, "dense": FeedForward(width=CHOSEN * EXPERT_WIDTH)}
    x = features(BATCH, LENGTH, WIDTH)
    works = {name: sides("", ours(Alone(part, WIDTH)), [], x).ours.work for name, part in parts.items()}
    for work in works.values():
        work()
    times = race(works)
    flops = [part.cost(WIDTH, Shape(BATCH, LENGTH), Plan()).total_flops.dense for part in parts.values()]
    return {
        "shape": f"{CHOSEN} of {EXPERTS} experts of {EXPERT_WIDTH} over one of {CHOSEN * EXPERT_WIDTH}: {TOKENS}",
        "times_the_dense": ratio(times, "experts", "dense"),
        "flops_ratio": round(flops[0] / flops[1], 4),
        "times": {name: [round(t, 6) for t in of] for name, of in times.items()},
    }


COMPARISONS: Mapping[str, Callable[[], Comparison]] = {
    "experts": partial(experts, compiled=False),
    "experts, compiled": partial(experts, compiled=True),
    "experts, 16 tokens": partial(few_tokens, 16),
    "experts, 1 token": partial(few_tokens, 1),
    "feed-forward": partial(feedforward, compiled=False),
    "feed-forward, compiled": partial(feedforward, compiled=True),
    "norm": partial(norm, compiled=False),
    "norm, compiled": partial(norm, compiled=True),
}
