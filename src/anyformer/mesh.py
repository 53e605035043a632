"""Mesh: the processes that share a training step, by what they divide among them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count, Value


def started_here() -> int:
    """The processes of this run on this machine: LOCAL_WORLD_SIZE, which `torchrun` sets; all of them where nobody says."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "").strip() or started())


def started() -> int:
    """The processes that compute together: WORLD_SIZE, which `torchrun` sets; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "").strip() or 1)


def rank() -> int:
    """The number of this process among them, from 0: RANK, which `torchrun` sets."""
    return int(os.environ.get("RANK", "").strip() or 0) if started() > 1 else 0


Schedule = Literal["1f1b", "zero_bubble"]


class Mesh(Value):
    """pipeline * data * shard * context * tensor processes. Those that differ in `data` or `shard` compute other rows of the
    batch, all others the same ones.

    The losses and weights are those of one process, up to the order of sums.
    """

    data: Count | None = None
    """Copies of the model, whose gradients are summed (distributed data parallel). Absent: as many as the processes that were
    started make."""
    shard: Count = 1
    """Processes that divide weights, gradients and the optimiser's state of a copy; a layer's weights are gathered while it
    computes (FSDP; ZeRO's stage 3, Rajbhandari et al. 2020, arXiv 1910.02054)."""
    context: Count = 1
    """Processes that divide the positions of every row, and gather keys and values (context parallelism, Grattafiori et al.
    2024, arXiv 2407.21783, section 3.3.2). They divide the weights of a copy too, as those of `shard` do."""
    tensor: Count = 1
    """Processes that divide sublayers by heads and features, the vocabulary by tokens, and the stream between sublayers by
    positions (tensor and sequence parallelism, Shoeybi et al. 2019, arXiv 1909.08053; Korthikanti et al. 2022, 2205.05198)."""
    expert: Count = 1
    """Processes, among those of `context` and `shard`, that divide experts: tokens travel to them and back (expert
    parallelism, Lepikhin et al. 2020, arXiv 2006.16668). It divides shard * context; all of these divide the other weights."""

    pipeline: Count = 1
    """Processes that divide the layers of the stack that the head reads: a process computes some of them, and the pieces of a
    batch (`accumulation`) follow one another from process to process (Huang et al. 2019, arXiv 1811.06965). All of them hold
    everything beside the layers, such as embeddings."""
    chunks: Count = 1
    """Runs of neighbouring layers per process of `pipeline`, dealt in turn: with 2 processes of 2 chunks the first has
    chunks 0 and 2. More of them shorten the wait and send more (interleaved schedule, Narayanan et al. 2021, arXiv 2104.04473,
    section 2.2; Megatron's virtual pipeline)."""
    schedule: Schedule = "1f1b"
    """The order of passes in a process of `pipeline`: `1f1b` computes one forward, one backward in turn; `zero_bubble` computes
    gradients of weights apart from those of inputs, while it would wait, and keeps a process's weights whole during an update
    (Qi et al. 2023, arXiv 2401.10241, ZB-H1)."""

    timeout: Annotated[float, Field(gt=0)] = 600.0
    """Seconds that a process waits for the others before the run fails; set more where one takes longer to tokenise its
    part of the data, or the first to join the parts."""

    @model_validator(mode="after")
    def _experts_in_shard(self) -> Mesh:
        if self.weights % self.expert:
            own = f"shard = {self.shard}" if self.context == 1 else f"shard * context = {self.weights}"
            raise ValueError(
                f"expert = {self.expert} processes are some of those of {own}, which it must divide: set shard to a multiple "
                f"of {self.expert}"
            )
        return self

    @model_validator(mode="after")
    def _schedule_of_a_pipeline(self) -> Mesh:
        if self.pipeline == 1 and (self.chunks, self.schedule) != (1, "1f1b"):
            said = f"chunks = {self.chunks}" if self.chunks > 1 else f"schedule = {self.schedule!r}"
            raise ValueError(f"{said} is of a pipeline, and pipeline = 1: set pipeline, or leave it out")
        return self

    @property
    def all_chunks(self) -> int:
        """The chunks of layers of all processes of the pipeline."""
        return self.pipeline * self.chunks

    @property
    def divided(self) -> int:
        """The processes that hold a copy of the model."""
        return self.stage * self.pipeline

    @property
    def stage(self) -> int:
        """The processes that hold a copy of the layers of one stage of the pipeline."""
        return self.weights * self.tensor

    @property
    def weights(self) -> int:
        """The processes that divide the weights of a copy, beside those of `tensor`."""
        return self.shard * self.context

    @property
    def alike(self) -> int:
        """The processes of a stage of the pipeline that compute the same rows."""
        return self.context * self.tensor

    @property
    def replicas(self) -> int:
        """The groups of processes that compute different rows; of a mesh that is resolved."""
        return (self.data or 1) * self.shard

    @property
    def sizes(self) -> Mapping[str, int]:
        """The numbers of processes that are not 1."""
        beside = ("timeout", "chunks", "schedule")
        return {name: size for name, size in self.plain().items() if name not in beside and size not in (None, 1)}

    def over(self, processes: int) -> Mesh:
        """The mesh with every size known. Raises `ValueError` if it is not that of so many processes."""
        data = self.data or max(1, processes // self.divided)
        if data * self.divided != processes:
            asked = " x ".join(f"{name} {size}" for name, size in self.sizes.items())
            raise ValueError(
                f"plan.mesh is {asked}, and {processes} {'process was' if processes == 1 else 'processes were'} started"
            )
        return self.but(data=data)
