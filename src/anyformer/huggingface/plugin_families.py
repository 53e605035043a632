"""Families of one's own, kept in plug-ins outside the package."""

from __future__ import annotations

from collections.abc import Iterable

from anyformer.describe import UserError, load_plugins, plugin_of
from anyformer.describe.plugins import FAMILIES, absent, remedy
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.model import Architecture

KEY = "anyformer_plugins"
"""The key of an exported configuration that names the plug-ins it needs."""
_REGISTERED: dict[str, Family] = {}


def enter(family: Family) -> None:
    """Know a family by its model type; one of the same type is refused, unless it is the same one defined again."""
    owner = _REGISTERED.get(family.model_type, family)
    if owner.home != family.home:
        raise UserError(f"model type {family.model_type!r} is that of a family in {owner.home} already")
    _REGISTERED[family.model_type] = family


def found(model_type: str) -> Family | None:
    """The family of a model type in a plug-in; None where there is none."""
    if model_type not in _REGISTERED:
        load_plugins(FAMILIES)
    return _REGISTERED.get(model_type)


def families() -> Iterable[Family]:
    """The families of all plug-ins."""
    load_plugins(FAMILIES)
    return tuple(_REGISTERED.values())


def families_of_module(name: str) -> list[Family]:
    """The families that a module, or a module inside it, has registered."""
    return [each for each in _REGISTERED.values() if f"{each.home}.".startswith(f"{name}.")]


def plugins_of(family: Family, architecture: Architecture) -> list[str]:
    """The plug-ins that a configuration of this family needs, by name."""
    named = {plugin_of(family.home), *architecture.with_plugins().get("plugins", ())}
    return sorted(name for name in named if name is not None)


def check_plugins(model_type: str, named: Iterable[str]) -> None:
    """Refuse a model type that was written with plug-ins of these names, if one of them is not loaded."""
    if lacking := absent(named):
        raise HuggingFaceError(
            f"model type {model_type!r} is not known without the plug-in{'s' * (len(lacking) > 1)} {' and '.join(lacking)}, "
            f"with which this was written: {remedy(lacking)}"
        )
