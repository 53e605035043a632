"""How configurations spell what many families share: activations, rotary positions, dropout, how weights start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.model import Architecture
from anyformer.parts import Initialisation, Normal, Rotary
from anyformer.parts.rotary_scaling import RotaryScaling

FULL, SLIDING = "full_attention", "sliding_attention"
"""What a layer sees, in `layer_types`."""
ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_python": "gelu",
    "relu": "relu",
    "relu2": "relu_squared",
    "silu": "silu",
    "swish": "silu",
    "quick_gelu": "quick_gelu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "xielu": "xielu",
}
"""Their name -> ours."""
_BACK = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "silu": "silu", "relu_squared": "relu2"}

_SCALINGS: Mapping[str, Mapping[str, str]] = {
    "linear": {"factor": "factor"},
    "dynamic": {"factor": "factor", "original_max_position_embeddings": "trained"},
    "llama3": {
        "factor": "factor", "low_freq_factor": "low", "high_freq_factor": "high", "original_max_position_embeddings": "trained",
    },
    "yarn": {
        "factor": "factor", "original_max_position_embeddings": "trained", "beta_fast": "beta_fast", "beta_slow": "beta_slow",
        "truncate": "truncate", "attention_factor": "attention_factor",
    },
    "longrope": {
        "short_factor": "short", "long_factor": "long", "original_max_position_embeddings": "trained",
        "attention_factor": "attention_factor",
    },
    "proportional": {"partial_rotary_factor": "fraction", "factor": "factor"},
}  # fmt: skip
"""Kind of scaling -> their key -> ours."""


def activation(name: str) -> str:
    """Our name of an activation."""
    if name not in ACTIVATIONS:
        raise HuggingFaceError(f"activation {name!r} is not known here, only {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def write_activation(name: str) -> str:
    """Their name of an activation."""
    if name not in ACTIVATIONS.values():
        raise HuggingFaceError(f"transformers has no activation {name!r}")
    return _BACK.get(name, name)


def rope_parameters(config: Config, *, theta: float = 10_000.0, layer_type: str | None = None) -> dict[str, Any]:
    """The table of rotary settings, from `rope_parameters` or the older `rope_theta` and `rope_scaling`."""
    table = config("rope_parameters", None)
    if table is not None and layer_type is not None and layer_type in table:
        table = table[layer_type]
    old = config("rope_scaling", None)
    base = config("rope_theta", theta)
    table = {name: value for name, value in (table if table is not None else old or {}).items() if value is not None}
    kind = table.pop("type", None) or "default"
    table.setdefault("rope_type", kind)
    if table.get("rope_theta") is None:
        table["rope_theta"] = base
    if table["rope_type"] == "dynamic":
        table["original_max_position_embeddings"] = config("max_position_embeddings")
    elif table["rope_type"] not in ("default", "linear", "proportional"):
        table.setdefault("original_max_position_embeddings", config("max_position_embeddings", None))
    if table["rope_type"] == "yarn" and "factor" not in table:
        raise HuggingFaceError(f"{config.where}: rope_parameters.factor is missing, which yarn scales by")
    return table


def read_rotary(table: Mapping[str, Any], *, unread: tuple[str, ...] = (), **fields: Any) -> Rotary:
    """Rotary positions from a table of settings. `unread`: keys of it that this family does not look at."""
    absent = [name for name in ("rope_type", "rope_theta") if table.get(name) is None]
    if absent:
        raise HuggingFaceError(f"rope_parameters: {' and '.join(absent)} should be given for each type of layer")
    kind = table["rope_type"]
    given = {name: value for name, value in table.items() if name not in ("rope_type", "rope_theta", *unread)}
    if kind == "default":
        if given:
            raise HuggingFaceError(f"rope_parameters: {', '.join(given)} mean nothing for rope_type 'default'")
        return Rotary(theta=float(table["rope_theta"]), **fields)
    if kind not in _SCALINGS:
        raise HuggingFaceError(f"rope_type {kind!r} is not known here, only default, {', '.join(_SCALINGS)}")
    if kind == "yarn":
        given = _with_attention_factor(given)
    keys = _SCALINGS[kind]
    strange = sorted(set(given) - set(keys))
    if strange:
        raise HuggingFaceError(f"rope_parameters: {', '.join(strange)} mean nothing here for rope_type {kind!r}")
    scaling = {"kind": kind} | {keys[name]: _number(value) for name, value in given.items() if value is not None}
    try:
        made: Any = TypeAdapter(RotaryScaling).validate_python(scaling)
    except ValidationError as error:
        first = error.errors()[0]
        raise HuggingFaceError(f"rope_parameters: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return Rotary(theta=float(table["rope_theta"]), scaling=made, **fields)


def write_rotary(rotary: Rotary) -> dict[str, Any]:
    """The table of settings of rotary positions."""
    table: dict[str, Any] = {"rope_type": "default", "rope_theta": rotary.theta}
    if rotary.scaling is not None:
        plain = rotary.scaling.plain()
        keys = _SCALINGS[plain["kind"]]
        table |= {"rope_type": plain["kind"]} | {theirs: plain[ours] for theirs, ours in keys.items() if ours in plain}
    return table


def read_rope(config: Config, *, theta: float = 10_000.0, fraction: float | None = None, **fields: Any) -> Rotary:
    """Rotary positions. `fraction`: the rotated share of a head where the configuration is silent; None where nobody looks."""
    table = rope_parameters(config, theta=theta)
    if fraction is None:
        return read_rotary(table, **fields)
    outside = config("partial_rotary_factor", fraction)
    return read_rotary(table, fraction=float(table.pop("partial_rotary_factor", outside)), **fields)


def write_rope(rotary: Rotary | None) -> dict[str, Any]:
    """The keys of a configuration about rotary positions, or about none."""
    table = write_rotary(rotary) if rotary is not None else {"rope_type": "default", "rope_theta": 10_000.0}
    if rotary is not None and rotary.fraction != 1:
        table["partial_rotary_factor"] = rotary.fraction
    if table["rope_type"] != "dynamic":
        return {"rope_parameters": table}
    # transformers scales from max_position_embeddings on, whatever the table says.
    return {"max_position_embeddings": table.pop("original_max_position_embeddings"), "rope_parameters": table}


def initialisation(config: Config, default: float = 0.02, key: str = "initializer_range") -> Initialisation:
    """Matrices and tables normal with the configuration's deviation."""
    rule = Normal(std=config(key, default))
    return Initialisation(matrix=rule, embedding=rule)


def longest(architecture: Architecture, default: int = 131_072) -> int:
    """`max_position_embeddings` of a model whose positions are computed: no limit, so a large one."""
    return architecture.output_stack.max_length or default


def _with_attention_factor(yarn: Mapping[str, Any]) -> dict[str, Any]:
    """DeepSeek's `mscale` and `mscale_all_dim` as the factor of the waves that they stand for."""
    given = {name: value for name, value in yarn.items() if not name.startswith("mscale")}
    scales = [yarn.get(name) for name in ("mscale", "mscale_all_dim")]
    if given.get("attention_factor") is None and all(scales):
        over, under = (0.1 * scale * math.log(max(given["factor"], 1.0)) + 1.0 for scale in scales if scale)
        given["attention_factor"] = over / under
    return given


def _number(value: Any) -> Any:
    """Whole numbers that a file spells as factors are factors."""
    if isinstance(value, list):
        return tuple(float(each) for each in value)
    return value
