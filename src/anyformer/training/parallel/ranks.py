"""`Ranks`: the processes of a run, seen from one of them. `Alone` is one process, `Together` are those of a mesh.

`Together` is imported where several processes were started, since torch's distribution takes the compiler with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rich.console import Console
from torch import Tensor

from anyformer import checkpoint
from anyformer.checkpoint import Contents, Pick, Take, whole_by
from anyformer.files import disk_errors
from anyformer.model.transformer import Transformer
from anyformer.plan import Plan
from anyformer.training.computing_place import Within, directly
from anyformer.training.lines import Lines
from anyformer.training.passes import MicroBatchLoss, OneByOne, Passes
from anyformer.training.place import held
from anyformer.training.stop import Stop

if TYPE_CHECKING:
    from anyformer.training.parallel.together import Together

T = TypeVar("T")


@dataclass(frozen=True)
class Alone:
    """The only process: nobody to ask, nothing to divide."""

    rank: int = 0
    size: int = 1
    first: bool = True
    """Whether this process writes the run's directory and speaks to the user."""

    replica: int = 0
    """The number of the group that computes the same rows of a batch as this process."""
    replicas: int = 1

    def total(self, number: float) -> float:
        """The sum of every replica's number."""
        return number

    def sum(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The sums of every replica's tensors, by name."""
        return dict(tensors)

    def largest(self, numbers: Tensor) -> Tensor:
        """Of each number the largest of all replicas."""
        return numbers

    def every(self, value: T) -> list[T]:
        """The values of all processes, in order."""
        return [value]

    def of_replicas(self, value: T) -> list[T]:
        """A value of each replica, in order."""
        return [value]

    def same(self, make: Callable[[], T]) -> T:
        """What the first process makes, for all of them."""
        return make()

    def in_turn(self, act: Callable[[], T]) -> T:
        """Act in the first process, then in the others, which find what it left on the disk."""
        return act()

    def first_alone(self, act: Callable[[], None]) -> None:
        """Act in the first process; the others wait."""
        act()

    def alone_in(
        self, directory: Path, remedy: str = "", check: Callable[[Path], None] = lambda directory: None
    ) -> AbstractContextManager[None]:
        """Hold the run's directory for this run, after a check of it; see `place.holding`."""
        return held(directory, remedy, check)

    def console(self, console: Console | None, directory: Path) -> AbstractContextManager[Console]:
        """Where this process speaks, while the run goes on."""
        return nullcontext(console or Lines())

    def meet(self, stop: Stop, told: T) -> list[T]:
        """Between two updates: obey a signal to stop that any process received; else gives what all processes `told`, in
        order."""
        stop.check()
        return [told]

    def waited(self) -> float:
        """Seconds that this process waited for others so far."""
        return 0.0

    def updating(self, stop: Stop) -> AbstractContextManager[None]:
        """Around all updates: where several processes wait for one another, a signal is obeyed when they `meet`."""
        return nullcontext()

    def divide(self, models: Sequence[Transformer], plan: Plan, *, vocabulary: bool = False) -> Within:
        """Divide models; gives a function within which they can compute. `vocabulary`: their logits may be divided too."""
        return directly

    def beforehand(self, within: Within, act: Callable[[], T]) -> T:
        """What a function gives within which models compute, before they train."""
        return within(act)

    def passes(self, loss: MicroBatchLoss, within: Within) -> Passes:
        """The passes of an update by a loss of models, after `divide` gave `within`."""
        return OneByOne(loss)

    def of_stages(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of all stages of a pipeline, by name."""
        return dict(tensors)

    def picking(self, take: Take, staged: Callable[[str, str], bool]) -> Pick:
        """What this process writes of every tensor. `staged`: whether one stage of a pipeline alone has that of a name in a
        file."""
        return whole_by(take)

    def beside(self, directory: Path, act: Callable[[], T]) -> list[T]:
        """Act in every process while training goes on in other threads; gives what each made, or raises what one raised.

        `directory`: by which an error of the disk is named.
        """
        with disk_errors(directory):
            return [act()]

    def write(self, given: Contents, directory: Path) -> int:
        """Write a checkpoint, whole or not at all; all processes call this. Gives the bytes that this one wrote."""
        checkpoint.write(given, directory)
        return checkpoint.read_manifest(directory).bytes


Ranks: TypeAlias = "Alone | Together"
ALONE = Alone()
