"""Training in several processes, started by `torchrun`: who there is, what they say, and how models are divided."""

from anyformer.training.parallel.launch import check_mesh, joined, losses_told, mesh_lines
from anyformer.training.parallel.ranks import ALONE, Alone, Ranks

__all__ = ["ALONE", "Alone", "Ranks", "check_mesh", "joined", "losses_told", "mesh_lines"]
