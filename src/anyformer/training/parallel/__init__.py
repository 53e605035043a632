"""Training in several processes, started by `torchrun`: who there is, what they say, and how models are divided."""

from anyformer.training.parallel.launch import joined, losses_told
from anyformer.training.parallel.ranks import ALONE, Alone, Ranks
from anyformer.training.parallel.sharable import check_mesh, mesh_lines

__all__ = ["ALONE", "Alone", "Ranks", "check_mesh", "joined", "losses_told", "mesh_lines"]
