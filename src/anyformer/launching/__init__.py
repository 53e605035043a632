"""Scripts that start a run in several processes on several machines, and their rehearsal on one."""

from anyformer.launching.checks import check_layout, notes
from anyformer.launching.cluster import Cluster
from anyformer.launching.hosts import Hosts
from anyformer.launching.job_set import JobSet
from anyformer.launching.launch import Launch
from anyformer.launching.places import NAMES, cluster_of
from anyformer.launching.rehearsal import RehearsalError, Started, rehearsed
from anyformer.launching.slurm import Slurm

__all__ = [
    "NAMES",
    "Cluster",
    "Hosts",
    "JobSet",
    "Launch",
    "RehearsalError",
    "Slurm",
    "Started",
    "check_layout",
    "cluster_of",
    "notes",
    "rehearsed",
]
