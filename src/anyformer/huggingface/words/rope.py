"""Rotary positions: `rope_parameters`, the older `rope_theta` and `rope_scaling`, and tables per type of layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from anyformer.describe import DescriptionError
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.vocabulary import POSITIVE
from anyformer.parts import Rotary

SCALINGS: Mapping[str, Mapping[str, str]] = {
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
"""Kind of scaling -> their key -> our field."""
SHARE, TRAINED = "partial_rotary_factor", "original_max_position_embeddings"
_SECTIONS = ("mrope_section", "mrope_interleaved")
_ALSO = {"deepseek_yarn": "yarn"}
"""Another name of a kind, in files of Sarvam -> its usual one."""


def rotary(config: Config, *, theta: float = 10_000.0, fraction: float | None = None, **fields: Any) -> Rotary:
    """Rotary positions; `theta`: its default. `fraction`: default of the share of a head that rotates, None for no such key."""
    table = rope_parameters(config, theta=theta, at=rope_table if fraction is None else rope_table_with_share)
    if fraction is None:
        return from_table(table, **fields)
    outside = config(SHARE, fraction)
    return from_table(table, fraction=float(table.pop(SHARE, outside)), **fields)


def rotary_or(config: Config, otherwise: Mapping[str, Any], *, theta: float) -> Rotary:
    """Rotary positions, those of `otherwise` where the configuration has no table, even if it has a theta."""
    if config("rope_parameters", None, rope_table) is None and config("rope_scaling", None) is None:
        config("rope_theta", None)
        return from_table(otherwise)
    return rotary(config, theta=theta)


def rope_table(target: Target) -> dict[str, Any]:
    """`rope_parameters` of the first layer that has rotary positions."""
    for branch in ("attention", "latent_attention", "differential_attention", "attention_experts"):
        for positions in target.each(f"{branch}.rotary"):
            if positions is not None:
                return to_table(positions)
    raise MismatchError("no layer has rotary positions")


def rope_table_with_share(target: Target) -> dict[str, Any]:
    """`rope_table` with the share of a head that rotates, written also where it is 1."""
    return {SHARE: 1.0, **rope_table(target)}


def rope_parameters(
    config: Config,
    *,
    theta: float = 10_000.0,
    layer_type: str | None = None,
    at: Callable[[Target], dict[str, Any]] = rope_table,
    trained: int | None = None,
) -> dict[str, Any]:
    """The table of rotary settings, from `rope_parameters` or the older `rope_theta` and `rope_scaling`.

    `trained`: the length before scaling, where a key beside the table says it.
    """
    table = config("rope_parameters", None, at)
    if table is not None and layer_type is not None and layer_type in table:
        table = table[layer_type]
    old = config("rope_scaling", None)  # which transformers prefers where a file has both
    base = config("rope_theta", theta)
    table = {name: value for name, value in (old or table or {}).items() if value is not None}
    kind = table.pop("type", None) or "default"
    kind = table.setdefault("rope_type", _ALSO.get(kind, kind))
    if table.get("rope_theta") is None:
        table["rope_theta"] = base
    before = table.get(TRAINED)
    longest = config("max_position_embeddings", None, (lambda _: before) if kind == "dynamic" else nowhere)
    return completed(table, longest, config.where, trained=trained)


def completed(table: Mapping[str, Any], longest: int | None, where: str, *, trained: int | None = None) -> dict[str, Any]:
    """A table of settings with what its kind of scaling takes from outside: `longest`, the most positions.

    `trained`: the length before scaling, where a key beside the table says it.
    """
    kind, whole = table["rope_type"], dict(table)
    if kind == "dynamic":  # transformers scales from max_position_embeddings on, whatever the table says
        whole[TRAINED] = longest
    elif kind not in ("default", "linear", "proportional"):
        whole |= {} if trained is None else {TRAINED: trained}
        whole.setdefault(TRAINED, longest)
        if kind == "longrope" and longest and whole[TRAINED]:
            whole.setdefault("factor", longest / whole[TRAINED])
    if whole.get(TRAINED, 0) is None:
        raise HuggingFaceError(f"{where}: rope_type {kind!r} scales from max_position_embeddings on, which is missing")
    if kind == "yarn" and "factor" not in whole:
        raise HuggingFaceError(f"{where}: rope_parameters.factor is missing, which yarn scales by")
    return whole


def from_table(table: Mapping[str, Any], *, unread: tuple[str, ...] = (), **fields: Any) -> Rotary:
    """Rotary positions from a table of settings; `unread`: keys in it that the model type ignores."""
    absent = [name for name in ("rope_type", "rope_theta") if table.get(name) is None]
    if absent:
        raise HuggingFaceError(f"rope_parameters: {' and '.join(absent)} should be given per type of layer")
    kind = table["rope_type"]
    given = {name: value for name, value in table.items() if name not in ("rope_type", "rope_theta", *_SECTIONS, *unread)}
    fields = {**fields, **_axes(table)}
    if kind == "default":
        if given:
            raise HuggingFaceError(f"rope_parameters: {', '.join(given)} mean nothing for rope_type 'default'")
        return Rotary(theta=float(table["rope_theta"]), **fields)
    if kind not in SCALINGS:
        raise HuggingFaceError(f"rope_type {kind!r} is not known here, only default, {', '.join(SCALINGS)}")
    if kind == "yarn":
        given = _with_attention_factor(given)
    if kind == "longrope":
        given = _with_longrope_factor(given)
    keys = SCALINGS[kind]
    strange = sorted(set(given) - set(keys))
    if strange:
        raise HuggingFaceError(f"rope_parameters: {', '.join(strange)} mean nothing here for rope_type {kind!r}")
    scaling: Any = {"kind": kind} | {keys[name]: _number(value) for name, value in given.items() if value is not None}
    try:
        return Rotary(theta=float(table["rope_theta"]), scaling=scaling, **fields)
    except DescriptionError as error:
        raise HuggingFaceError(f"rope_parameters: {'; '.join(str(problem) for problem in error.problems)}") from None


def to_table(rotary: Rotary) -> dict[str, Any]:
    """The table of settings of rotary positions."""
    table: dict[str, Any] = {"rope_type": "default", "rope_theta": rotary.theta}
    if rotary.fraction != 1:
        table[SHARE] = rotary.fraction
    table |= _of_axes(rotary)
    if rotary.scaling is None:
        return table
    plain = rotary.scaling.plain()
    kind = plain["kind"]
    if kind == "longrope":  # whose factor of attention, where it is absent, is another than ours
        plain = {"attention_factor": rotary.scaling.wave_factor} | plain
    return table | {"rope_type": kind} | {theirs: plain[ours] for theirs, ours in SCALINGS[kind].items() if ours in plain}


def _axes(table: Mapping[str, Any]) -> dict[str, Any]:
    """The field of the axes, from `mrope_section`: the pairs that turn by time, by height and by width."""
    sections = table.get(_SECTIONS[0])
    if sections is None:
        return {}
    kind = "interleaved" if table.get(_SECTIONS[1]) else "sections"
    return {"axes": {"kind": kind, "sizes": tuple(sections)}}


def _of_axes(rotary: Rotary) -> dict[str, Any]:
    """The same as keys."""
    plain = {} if rotary.axes is None else rotary.axes.plain()
    if not plain:
        return {}
    if "sizes" not in plain:
        raise MismatchError(f"rotary positions along axes of kind {plain['kind']!r} have no key")
    return {_SECTIONS[0]: list(plain["sizes"]), **({_SECTIONS[1]: True} if plain["kind"] == "interleaved" else {})}


def with_share(table: Mapping[str, Any], fraction: float = 1.0) -> Rotary:
    """Rotary positions of a share of each head, from a table alone; `fraction`: the share where the key is absent."""
    share = table.get(SHARE)
    return from_table(table, unread=(SHARE,), fraction=float(fraction if share is None else share))


def rotary_with_alpha(config: Config, head_width: int) -> Rotary:
    """`dynamic` with an `alpha` is theta * alpha^(E / (E - 2)) at every length, whatever else the table says (Hunyuan)."""
    table = rope_parameters(config)
    alpha, theta, E = table.get("alpha"), float(table["rope_theta"]), head_width
    if table["rope_type"] != "dynamic" or not alpha:
        return from_table(table, unread=("alpha",))
    new = theta * alpha ** (E / (E - 2)) if E > 2 else math.inf
    if not POSITIVE.fits(new):
        raise HuggingFaceError(f"{config.where}: alpha = {alpha} and heads of {E} features stretch theta = {theta:g} too far")
    return Rotary(theta=new)


def _with_attention_factor(yarn: Mapping[str, Any]) -> dict[str, Any]:
    """Yarn settings in which DeepSeek's `mscale` and `mscale_all_dim` are one factor of sines and cosines."""
    given = {name: value for name, value in yarn.items() if not name.startswith("mscale")}
    scales = [yarn.get(name) for name in ("mscale", "mscale_all_dim")]
    if given.get("attention_factor") is None and all(scales):
        over, under = (0.1 * scale * math.log(max(given["factor"], 1.0)) + 1.0 for scale in scales if scale)
        given["attention_factor"] = over / under
    return given


def _with_longrope_factor(given: Mapping[str, Any]) -> dict[str, Any]:
    """LongRoPE settings with the factor of sines and cosines, sqrt(1 + ln(factor) / ln(trained)) or 1, where it is absent."""
    factor, trained = given.get("factor") or 1.0, given.get(TRAINED) or 1
    kept = {name: value for name, value in given.items() if name != "factor"}
    if kept.get("attention_factor") is None:
        kept["attention_factor"] = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 and trained > 1 else 1.0
    return kept


def _number(value: Any) -> Any:
    """A setting, of which a list of factors, one per frequency, becomes a tuple of floats."""
    return tuple(float(factor) for factor in value) if isinstance(value, list) else value
