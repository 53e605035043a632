"""Mesh: the processes that share a training step, by what they divide among them."""

from __future__ import annotations

from anyformer.describe import Count, Value


class Mesh(Value):
    """data * shard processes. Each computes other rows of the batch; a group of `shard` holds every weight once.

    The losses and weights are those of one process, up to the order of sums.
    """

    data: Count | None = None
    """Copies of the model, whose gradients are summed (distributed data parallel). Absent: as many as the processes that were
    started make."""
    shard: Count = 1
    """Processes that divide weights, gradients and the optimiser's state of a copy; each layer's weights are gathered while it
    computes (FSDP; ZeRO's stage 3, Rajbhandari et al. 2020, arXiv 1910.02054)."""

    def over(self, processes: int) -> Mesh:
        """The mesh with every size known. Raises `ValueError` if it is not that of so many processes."""
        data = self.data or max(1, processes // self.shard)
        if data * self.shard != processes:
            asked = " x ".join(f"{name} {size}" for name, size in self.plain().items() if size is not None)
            raise ValueError(
                f"plan.mesh is {asked}, and {processes} {'process was' if processes == 1 else 'processes were'} started"
            )
        return self.but(data=data)
