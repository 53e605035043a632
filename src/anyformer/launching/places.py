"""Kinds of clusters by the names that users have for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyformer.describe import DescriptionError, change_all, did_you_mean, read_data
from anyformer.launching.cluster import Cluster
from anyformer.launching.hosts import Hosts
from anyformer.launching.job_set import JobSet
from anyformer.launching.slurm import Slurm

NAMES: Mapping[str, type[Cluster]] = {"slurm": Slurm, "k8s": JobSet, "ssh": Hosts}


def cluster_of(named: str, changes: Mapping[str, Any]) -> Cluster:
    """The cluster of a kind, or of a TOML file that says its `kind`, with values changed by path."""
    if not named.endswith((".toml", ".json")):
        return change_all(_class(named, "--on")(), changes)
    data = read_data(Path(named))
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str):
        raise DescriptionError(f"should say its kind, one of {', '.join(NAMES)}, as in kind = 'slurm'", where=named)
    return change_all(_class(kind, f"{named}: kind").parse(data, where=named), changes)


def _class(kind: str, where: str) -> type[Cluster]:
    if kind not in NAMES:
        raise DescriptionError(
            f"{where}: {kind!r} is no cluster: choose {', '.join(NAMES)}, or a TOML file of one{did_you_mean(kind, NAMES)}"
        )
    return NAMES[kind]
