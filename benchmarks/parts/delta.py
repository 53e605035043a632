"""The recurrences of delta rules alone, against flash-linear-attention's references in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType

import torch
from benchmarks.parts.mixers import HEAD, HEADS, LENGTH, WIDTH
from benchmarks.parts.race import Comparison
from benchmarks.parts.sides import NO_FLA, OURS, Side, features, fla, sides
from torch import Tensor, nn

from anyformer.parts.recurrence.recurrence import delta_recurrence


class Factors(nn.Module):
    """What a delta recurrence is given, (1, T, H, ...), as parameters: their gradients go through the gate.

    `channels`: of the decay, 0 without one; `steps`: keys, values and betas of a token.
    """

    def __init__(self, channels: int, steps: int = 1) -> None:
        super().__init__()
        for name, (count, width) in {
            "q": (1, HEAD), "k": (steps, HEAD), "v": (steps, HEAD), "decay": (1, channels), "beta": (steps, 1)
        }.items():  # fmt: skip
            if width:
                self.register_parameter(name, nn.Parameter(torch.empty(1, count * LENGTH, HEADS, width)))

    def ready(self, x: Tensor) -> dict[str, Tensor]:
        """Keys of length 1, decays below 0, betas in (0, 1); x shifts the queries."""
        given = dict(self.named_parameters())
        given["q"] = given["q"] + x.view(given["q"].shape)
        given["k"] = nn.functional.normalize(given["k"], dim=-1)
        given["beta"] = given["beta"].sigmoid()
        return given | {name: -0.1 * nn.functional.softplus(given[name]) for name in ("decay",) if name in given}


Rule = Callable[[ModuleType, Mapping[str, Tensor]], Tensor]
"""flash-linear-attention's reference of an operation, called with (B, T, H, ...): (B, T, H, E)."""


def delta_net(naive: ModuleType, given: Mapping[str, Tensor]) -> Tensor:
    q, k, v, beta = (given[name].transpose(1, 2) for name in ("q", "k", "v", "beta"))
    return naive.delta_rule_chunkwise(q, k, v, beta[..., 0])[0].transpose(1, 2)  # type: ignore[no-any-return]


def delta_product(naive: ModuleType, given: Mapping[str, Tensor]) -> Tensor:
    q, k, v, beta = (given[name] for name in ("q", "k", "v", "beta"))
    steps = k.shape[1] // q.shape[1]
    y, _ = naive.naive_recurrent_gated_delta_product(q, k, v, None, beta[..., 0], HEAD**-0.5, num_householder=steps)
    return y  # type: ignore[no-any-return]


def gated_rule(naive: ModuleType, given: Mapping[str, Tensor]) -> Tensor:
    q, k, v, beta, decay = (given[name] for name in ("q", "k", "v", "beta", "decay"))
    return naive.naive_chunk_gated_delta_rule(q, k, v, decay[..., 0], beta[..., 0])[0]  # type: ignore[no-any-return]


def kimi_rule(naive: ModuleType, given: Mapping[str, Tensor]) -> Tensor:
    q, k, v, beta, decay = (given[name] for name in ("q", "k", "v", "beta", "decay"))
    return naive.naive_chunk_kda(q, k, v, decay, beta[..., 0])[0]  # type: ignore[no-any-return]


def delta(operation: str, rule: Rule, channels: int, steps: int = 1) -> Comparison:
    """The recurrence alone, against flash-linear-attention's reference, in chunks where it has one."""
    us, them = Factors(channels, steps), Factors(channels, steps)
    reference = fla(operation)

    def our_call(x: Tensor) -> Tensor:
        given = us.ready(x)
        given["q"] = nn.functional.pad(given["q"][:, :, None], (0, 0, 0, 0, steps - 1, 0)).flatten(1, 2) * HEAD**-0.5
        q, k, v, beta = (given[name].transpose(1, 2) for name in ("q", "k", "v", "beta"))
        decay = given["decay"].transpose(1, 2) if channels else None
        mixed, _ = delta_recurrence(q, k, v, beta, decay, None, chunk=64, segments=None)
        return mixed.transpose(1, 2)[:, steps - 1 :: steps].flatten(2)

    others = []
    if reference is not None:
        call = partial(rule, reference)
        others.append(Side(f"flash-linear-attention, {operation}", them, call=lambda x: call(them.ready(x)).flatten(2)))
    shape = f"the recurrence alone: 1 x {LENGTH}, {HEADS} heads of {HEAD}{f', {steps} keys a token' if steps > 1 else ''}"
    missing = NO_FLA if reference is None else {}
    return sides(shape, Side(OURS, us, call=our_call, kind="ours"), others, features(1, LENGTH, WIDTH), missing=missing)


COMPARISONS: Mapping[str, Callable[[], Comparison]] = {
    "gated delta, recurrence": partial(delta, "gated_delta_rule", gated_rule, 1),
    "kimi delta, recurrence": partial(delta, "kda", kimi_rule, HEAD),
    "delta net, recurrence": partial(delta, "delta_rule", delta_net, 0),
    "delta product, recurrence": partial(delta, "gated_delta_product", delta_product, 0, steps=2),
}
