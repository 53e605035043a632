"""State-space layers: the keys of Mamba and Mamba-2 in every spelling, and the names of their weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.activations import activation
from anyformer.huggingface.words.names import convolution, fused_convolutions
from anyformer.model import Architecture
from anyformer.parts import GroupedRMSNorm, Mamba, Mamba2, ShortConvolution
from anyformer.parts.norms.norm import Norm
from anyformer.parts.recurrence.mamba2 import CONVOLVED, PROJECTIONS

MAMBA, MAMBA2 = "mamba", "mamba2"
LINEAR = "linear_attention"
"""Transformers' type of a layer with a recurrence."""
KERNELS = (
    "chunk_size", "mamba_chunk_size", "mamba_ssm_cache_dtype", "use_associative_scan", "use_falcon_mambapy",
    "use_mamba_kernels", "use_mambapy",
)  # fmt: skip
"""Keys of kernels: which one, how many positions it takes at a time, and the type of the decode state."""
HYBRID_KEYS: Mapping[str, str] = {
    "heads": "mamba_n_heads", "head_width": "mamba_d_head", "state_width": "mamba_d_state", "groups": "mamba_n_groups",
    "expand": "mamba_expand", "kernel": "mamba_d_conv", "conv_bias": "mamba_conv_bias", "bias": "mamba_proj_bias",
}  # fmt: skip
"""What a hybrid's configuration calls the sizes of its Mamba-2 layers."""
HYBRID: Mapping[str, Any] = {
    "heads": 128, "head_width": None, "state_width": 256, "groups": 1, "expand": 2, "kernel": 4, "conv_bias": True,
    "bias": False,
}  # fmt: skip
"""The defaults of its keys."""
_INFINITE = {"__float__": "Infinity"}
"""How transformers writes a number that JSON lacks."""
_PLACES: Mapping[str, Any] = {
    "heads": f"{MAMBA2}.heads", "head_width": f"{MAMBA2}.head_width", "state_width": f"{MAMBA2}.state_width",
    "groups": f"{MAMBA2}.groups", "kernel": f"{MAMBA2}.convolution.kernel", "conv_bias": f"{MAMBA2}.convolution.bias",
    "bias": lambda target: bool(target(f"{MAMBA2}.bias")), "expand": lambda target: expansion(target),
}  # fmt: skip


def mamba2(
    config: Config,
    *,
    eps: float,
    keys: Mapping[str, str] = HYBRID_KEYS,
    absent: Mapping[str, Any] = HYBRID,
    activated: str | None = None,
    act: str | None = None,
    limits: tuple[float, float | None] | None = None,
    inner: int | None = None,
    **fields: Any,
) -> Mamba2:
    """The layer; `keys`: what the family calls its sizes; `absent`: their defaults; `eps`: of its norm by groups.

    `activated`: the key of the convolution's activation, if networks have another; `act`: the activation, if it has no key;
    `limits`: of the time step, where `time_step_limit` does not say them; `inner`: the features of all heads, where not
    `expand` times the width; `fields` replace the norm and others. Refuses heads whose widths do not add up.
    """
    given = {name: config(key, absent[name], _PLACES[name]) for name, key in keys.items()}
    inner = int(given["expand"] * config("hidden_size")) if "expand" in given else inner
    heads, width, groups = given["heads"], given.get("head_width"), given["groups"]
    if inner is not None and width in (None, "auto"):
        width = inner // heads
    if inner is not None and heads * width != inner:
        raise HuggingFaceError(
            f"{config.where}: {keys['heads']} x {keys['head_width']} should be the features of all heads, {inner}, "
            f"got {heads} x {width} = {heads * width}"
        )
    norm: Norm | None = GroupedRMSNorm(groups=groups, eps=eps)
    floor, ceiling = step_limits(config) if limits is None else limits
    if act is None and activated is not None:
        act = activation(config, activated, at=f"{MAMBA2}.convolution.activation")
    elif act is None:
        act = activation(config, at=scanned_activation)
    return Mamba2(**{
        "heads": heads, "head_width": width, "state_width": given["state_width"], "groups": groups,
        "convolution": ShortConvolution(
            kernel=given["kernel"], activation=act, bias=given.get("conv_bias", True)
        ),
        "norm": norm, "step_floor": floor, "step_ceiling": ceiling, "bias": PROJECTIONS if given.get("bias") else (), **fields,
    })  # fmt: skip


def mamba(
    config: Config,
    *,
    keys: Mapping[str, str],
    rank_key: str,
    biased: tuple[str, str],
    inner_norm: Norm | None = None,
) -> Mamba:
    """Mamba's layer; `keys`: of its state's width, expansion and kernel; `rank_key`: of the rank of its steps.

    `biased`: keys of the biases of the projections and of the convolution.
    """
    at = {"state_width": "state_width", "kernel": "convolution.kernel"}
    given = {name: config(keys[name], default, f"{MAMBA}.{at[name]}") for name, default in (("state_width", 16), ("kernel", 4))}
    width, expand = config("hidden_size"), config(keys["expand"], 2, _channels_by_width)
    rank = config(rank_key, None, f"{MAMBA}.step_rank")
    bias = config(biased[0], False, lambda target: bool(target(f"{MAMBA}.bias")))
    act = activation(config, at=scanned_activation)
    return Mamba(
        channels=expand * width,
        state_width=given["state_width"],
        step_rank=-(-width // 16) if rank in (None, "auto") else rank,
        convolution=ShortConvolution(
            kernel=given["kernel"], activation=act, bias=config(biased[1], True, f"{MAMBA}.convolution.bias")
        ),
        inner_norm=inner_norm,
        bias=("gate", "value", "output") if bias else (),
    )


def _channels_by_width(target: Target) -> int:
    channels, width = target(f"{MAMBA}.channels"), target.architecture.width
    if channels % width:
        raise MismatchError(f"Mamba has {channels} channels, no multiple of the width {width}")
    return int(channels // width)


def mamba_names(architecture: Architecture, theirs: str) -> Table:
    """Names of Mamba's weights in a module that transformers calls `theirs`."""
    kernel = Target(architecture).get(f"{MAMBA}.convolution.kernel", 0)
    return {
        (f"{MAMBA}.value", f"{MAMBA}.gate"): To(f"{theirs}.in_proj", Rows()),
        f"{MAMBA}.convolution.weight": To(f"{theirs}.conv1d.weight", convolution(kernel)),
        f"{MAMBA}.convolution.bias": f"{theirs}.conv1d.bias",
        (f"{MAMBA}.step_down", f"{MAMBA}.key", f"{MAMBA}.query"): To(f"{theirs}.x_proj", Rows()),
        f"{MAMBA}.step": f"{theirs}.dt_proj",
        f"{MAMBA}.dt_bias": f"{theirs}.dt_proj.bias",
        f"{MAMBA}.step_norm": f"{theirs}.dt_layernorm",
        f"{MAMBA}.key_norm": f"{theirs}.b_layernorm",
        f"{MAMBA}.query_norm": f"{theirs}.c_layernorm",
        f"{MAMBA}.A_log": f"{theirs}.A_log",
        f"{MAMBA}.skip": f"{theirs}.D",
        f"{MAMBA}.output": f"{theirs}.out_proj",
    }


def step_limits(config: Config) -> tuple[float, float | None]:
    """The least and the largest time step by `time_step_limit`; None where there is no largest."""
    floor, ceiling = config("time_step_limit", None, _limits) or (0.0, math.inf)
    return float(floor), None if ceiling in (_INFINITE, math.inf) else float(ceiling)


def _limits(target: Target) -> list[Any]:
    floor, ceiling = target(f"{MAMBA2}.step_floor"), target(f"{MAMBA2}.step_ceiling")
    if not floor and ceiling is None:
        raise MismatchError("time steps have no limits")
    return [floor, _INFINITE if ceiling is None else ceiling]


def expansion(target: Target) -> int:
    """The features of all heads, of the width; `MismatchError` where they are no multiple."""
    inner, width = target(f"{MAMBA2}.heads") * target(f"{MAMBA2}.head_width"), target.architecture.width
    if inner % width:
        raise MismatchError(f"the heads of Mamba-2 have {inner} features, no multiple of the width {width}")
    return int(inner // width)


def scanned_activation(target: Target) -> str:
    """The activation of networks; of a model without networks, that of the convolutions before the scan."""
    networks = target.get("feedforward.activation") or target.get("experts.activation")
    mixer = MAMBA if target.has(MAMBA) else MAMBA2
    return str(networks or target(f"{mixer}.convolution.activation"))


def mamba2_names(architecture: Architecture, theirs: str) -> Table:
    """Names of Mamba-2's weights in a module that transformers calls `theirs`."""
    kernel = Target(architecture).get(f"{MAMBA2}.convolution.kernel", 0)
    filters = [tuple(f"{MAMBA2}.{side}_convolution.{leaf}" for side in CONVOLVED) for leaf in ("weight", "bias")]
    return {
        tuple(f"{MAMBA2}.{side}" for side in PROJECTIONS[:-1]): To(f"{theirs}.in_proj", Rows()),
        filters[0]: To(f"{theirs}.conv1d.weight", fused_convolutions(kernel)),
        filters[1]: To(f"{theirs}.conv1d.bias", Rows()),
        f"{MAMBA2}.A_log": f"{theirs}.A_log",
        f"{MAMBA2}.dt_bias": f"{theirs}.dt_bias",
        f"{MAMBA2}.skip": f"{theirs}.D",
        f"{MAMBA2}.norm": f"{theirs}.norm",
        f"{MAMBA2}.output": f"{theirs}.out_proj",
    }
