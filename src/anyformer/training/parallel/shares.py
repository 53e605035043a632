"""What a process of a run writes of a checkpoint, and the checkpoint that they write together.

Every number is written once. A weight that is divided is written by the processes that hold its parts; of those that hold the
same part one writes, chosen by the weight's name, so that copies share the work. Who writes what follows from the mesh alone:
nothing is sent but the sizes and digests of the files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from anyformer.checkpoint import Contents, Pick, Piece, Take, entries_of, of_all, seal, write_share, write_texts, writing
from anyformer.describe import UserError
from anyformer.files import disk_errors
from anyformer.model.divided import extent_of, is_divided, local
from anyformer.training.parallel.exchange_clock import beside_training

T = TypeVar("T")
Staged = Callable[[str, str], bool]
"""Whether one stage of a pipeline alone has the tensor of a name in a file."""


@dataclass(frozen=True)
class SharedCheckpoints:
    """The part that a process of `size` has in checkpoints. `stage`: the processes of a stage of the pipeline; `group`: of all
    processes, for these messages alone, because they are sent while training goes on."""

    rank: int
    size: int
    stage: int
    group: dist.ProcessGroup

    def picking(self, take: Take, staged: Staged) -> Pick:
        """What this process writes of each tensor."""

        @torch.no_grad()  # a part that could be differentiated takes torch four times as long to give
        def pick(file: str, name: str, tensor: Tensor) -> Piece | None:
            first = self.rank // self.stage * self.stage if staged(file, name) else 0
            extent = extent_of(tensor)
            if not self._writes(name, tensor, first) or (extent.count == 0 and tensor.numel()):
                return None
            return Piece(take(local(tensor)), extent, tuple(tensor.shape))

        return pick

    def _writes(self, name: str, tensor: Tensor, first: int) -> bool:
        """Whether this one of the processes that hold the same part of a tensor writes it; `first`: of the stage that does."""
        turn = crc32(name.encode())
        if not is_divided(tensor):
            return self.rank == first + turn % self.stage
        mesh = tensor.device_mesh
        place = mesh.get_coordinate()
        assert place is not None, "a process holds a part of its own meshes only"
        copies = [i for i, placement in enumerate(tensor.placements) if placement.is_replicate()]
        return first in _members(mesh) and all(place[i] == turn % mesh.size(i) for i in copies)

    def write(self, given: Contents, directory: Path) -> int:
        """Write a checkpoint with all processes, whole or not at all; the first one seals it. Gives the bytes of this share.

        Raises, in all of them, what one of them raised.
        """
        with beside_training(), ExitStack() as stack:

            def begun() -> Path | None:
                return stack.enter_context(writing(directory)) if self.rank == 0 else None

            def sealed() -> None:
                if self.rank == 0:
                    write_texts(replace(given, few_bits=of_all(few for _, few in shares)), partial)
                    texts = entries_of(partial, but=files)
                    seal(partial, given.facts, {**texts, **files})
                    stack.close()

            partial = next(path for path in self.together(directory, begun) if path is not None)
            shares = self.together(directory, lambda: (write_share(given, partial, self.rank, self.size), given.few_bits))
            files = {name: entry for share, _ in shares for name, entry in share.items()}
            self.together(directory, sealed)
            return sum(entry.bytes for entry in shares[self.rank][0].values())

    def together(self, directory: Path, act: Callable[[], T]) -> list[T]:
        """Act in every process; gives what each of them made, or raises the error of one."""
        made: tuple[T | None, UserError | None]
        own: Exception | None = None
        try:
            with disk_errors(directory):
                made = act(), None
        except Exception as error:
            own, made = error, (None, error if isinstance(error, UserError) else UserError(f"rank {self.rank}: {error!r}"))
        found = [made] * self.size
        dist.all_gather_object(found, made, group=self.group)
        telling = next((rank for rank, (_, problem) in enumerate(found) if problem is not None), None)
        if telling is not None:
            problem = own or found[telling][1]
            if isinstance(problem, UserError):
                problem.teller = telling
            assert problem is not None, "it is the one that was found"
            raise problem
        return [value for value, _ in found]  # type: ignore[misc]


@lru_cache
def _members(mesh: DeviceMesh) -> frozenset[int]:
    """The ranks of a mesh, which torch works out anew whenever it is asked."""
    return frozenset(mesh.mesh.flatten().tolist())
