"""A model that can be opened: its inner values watched and replaced, its calls ended or begun at one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.model import value_paths
from anyformer.model.architecture import Architecture
from anyformer.model.initialise import Described
from anyformer.model.requests import Patch, Replacement, Request, Requests, ResumeAt, StopAt, StoppedCallError
from anyformer.model.seen_values import SeenValues
from anyformer.operations import Watchable
from anyformer.parts.call.opened import Inquiry, OpenedPart

COMPILED = (
    "a compiled model shows no values: inside model.watch, model.patch, model.stop_at and model.resume_at call the model "
    "itself, not what torch.compile made of it"
)


def _refuse_compiled() -> None:
    raise InputError(COMPILED)


# As `torch.compiler.disable(reason=COMPILED)` marks it, which imports the compiler for seconds.
vars(_refuse_compiled).update(_torchdynamo_disable=True, _torchdynamo_disable_msg=COMPILED)


class Openable(Described):
    """The base of models whose values have paths: those of the description, with the number of the layer in brackets.

    `decoder.layer[3].attention.weights`, `decoder.layer[*].feedforward.up`; a variant's name stands for its layers, as in
    `decoder.local.attention.key`; `*` is any run of characters but dots, `**` any run.
    """

    architecture: Architecture
    asked: Inquiry | None = None
    """What is asked of the values of its calls; None: nothing."""

    def watchable(self) -> Mapping[str, Watchable]:
        """Every value that can be watched, by its path, in the order computed, with its shape and what it is."""
        return value_paths.watchable(self.architecture)

    @contextmanager
    def watch(self, *paths: str, gradients: bool = False) -> Iterator[SeenValues]:
        """Keep the values at these paths, of every call inside the block: `seen[path]`.

        `gradients`: keep their gradients too, which a backward pass leaves in `seen.gradients[path]`.
        """

        def named(pattern: str) -> tuple[str, ...]:
            return value_paths.named(self.architecture, [pattern])

        seen = SeenValues(value_paths.named(self.architecture, paths), named, gradients=gradients)
        with self._asking(seen):
            yield seen

    @contextmanager
    def patch(self, path: str, by: Replacement) -> Iterator[Patch]:
        """Go on with other values at this path, or at all that the pattern names, in every call inside the block.

        `by`: a number or a tensor, which is broadcast, or a function that is given the value and returns one of its shape.
        """
        patch = Patch(value_paths.named(self.architecture, [path]), by)
        with self._asking(patch):
            yield patch

    @contextmanager
    def stop_at(self, path: str) -> Iterator[StopAt]:
        """End the call, and the block, where the value at this path is computed: `stopped.value`."""
        stop = StopAt(self._one(path, "stop at"))
        with self._asking(stop):
            try:
                yield stop
            except StoppedCallError as stopped:
                if stopped.stop is not stop:
                    raise

    @contextmanager
    def resume_at(self, path: str, value: Tensor) -> Iterator[None]:
        """Go on from `value` at the stream before a layer, `decoder.layer[3].input`: layers before it are not computed."""
        path = self._one(path, "resume at")
        entrance = value_paths.entrance(self.architecture, path)
        if entrance is None:
            raise InputError(
                f"a call can be resumed at the stream before a layer, such as {self.architecture.layered[-1]}.layer[1].input, "
                f"not at {path}: give this value by model.patch, which computes what stands before it too"
            )
        stack, number = entrance
        for i in range(number, stack.depth):
            for read in stack.variants[stack.layers[i]].reads:
                if read.variant is not None and read.variant in stack.layers[:number]:
                    raise InputError(
                        f"layer {i} reads values of the {read.variant!r} layers, some of which stand before layer {number}: "
                        f"give the value by model.patch, which computes them too"
                    )
        with self._asking(ResumeAt(path, value)):
            yield

    def _one(self, path: str, what: str) -> str:
        """The one path that is named."""
        found = value_paths.named(self.architecture, [path])
        if len(found) > 1:
            raise InputError(f"a call can {what} one path, and {path!r} names {len(found)}: {found[0]}, {found[1]} ...")
        return found[0]

    @contextmanager
    def _asking(self, request: Request) -> Iterator[None]:
        before = self.asked
        self.asked = Requests((*(before.requests if isinstance(before, Requests) else ()), request))
        try:
            yield
        finally:
            self.asked = before

    def _begin(self, *, state: bool) -> None:
        """A call begins, in which somebody asks for values."""
        asked = self.asked
        if asked is None:
            return
        if torch.compiler.is_compiling():
            _refuse_compiled()
        if isinstance(asked, Requests):
            if state and asked.partial is not None:
                raise InputError(
                    f"a call that is stopped or resumed at {asked.partial} would leave its decode state incomplete: leave the "
                    f"state out"
                )
            asked.begin()

    def _see(self, path: str, value: Tensor) -> Tensor:
        """The value at a path outside of the stacks."""
        return value if self.asked is None else self.asked.met(path, value)

    def _opened(self, path: str) -> OpenedPart | None:
        """What is asked of the values of a stack."""
        return None if self.asked is None else OpenedPart(self.asked, path)
