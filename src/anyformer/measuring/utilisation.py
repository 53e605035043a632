"""The share of an accelerator's peak that a training by another program uses, by the shapes of its batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from anyformer.costs.hardware import Hardware
from anyformer.costs.named_hardware import hardware_of, recognised
from anyformer.costs.utilisation import PairsCounted, flops
from anyformer.describe import UserError
from anyformer.resolving import ArchitectureLike, architecture


class UtilisationMeter:
    """MFU of one process: FLOPs of every batch that its model was trained on, over the seconds and its accelerator's peak.

    `together`: accelerators that share one batch, by tensor, pipeline or context parallelism. The seconds run from `begin` to
    the last `end`; batches are seen by `watch`. A batch costs what `af.flops` says of its shape: padding is computed too.
    """

    def __init__(
        self,
        what: ArchitectureLike,
        *,
        hardware: str | Hardware | None = None,
        precision: str = "bf16",
        together: int = 1,
        pairs: PairsCounted = "exact",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._what, self._pairs, self._clock = what, pairs, clock
        on = _this_device() if hardware is None else hardware_of(hardware)
        self.peak = on.peak(precision) * together
        self._of_shape: dict[tuple[int, int | None], int] = {}
        self.reset()

    @cached_property
    def architecture(self) -> Any:
        """What is trained."""
        return architecture(self._what)

    def reset(self) -> None:
        """Forget what was seen: the next `begin` starts the clock anew."""
        self.flops, self._begun, self._ended = 0, None, None

    _begun: float | None
    _ended: float | None

    def begin(self) -> None:
        """The first step begins; later ones change nothing until `reset`."""
        if self._begun is None:
            self._begun = self._clock()

    def end(self) -> None:
        """A step has ended."""
        self._ended = self._clock()

    def add(self, batch: int, length: int, source_length: int | None = None) -> None:
        """A batch of so many rows was trained on; `source_length`: of an encoder's input, where there are two."""
        key = length, source_length
        if key not in self._of_shape:
            made = self.architecture
            self._of_shape[key] = flops(made, length=length, source_length=source_length, pairs=self._pairs)
        self.flops += batch * self._of_shape[key]

    @property
    def mfu(self) -> float | None:
        """FLOPs of the model per second over the peak since `begin`; None before a step has ended."""
        if self._begun is None or self._ended is None or self._ended <= self._begun:
            return None
        return self.flops / (self._ended - self._begun) / self.peak

    def watch(self, model: nn.Module) -> RemovableHandle:
        """See every batch that a model of transformers' arguments is called with while it trains."""

        def saw(module: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
            if module.training:
                self._see(given, named)

        return model.register_forward_pre_hook(saw, with_kwargs=True)

    def _see(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Count one call by the shapes of its tokens: (B, T), or (B, S) and those of the decoder."""
        tokens = next((named[name] for name in ("input_ids", "inputs_embeds") if isinstance(named.get(name), Tensor)), None)
        tokens = given[0] if tokens is None and given and isinstance(given[0], Tensor) else tokens
        if tokens is None or tokens.dim() < 2:
            raise UserError(
                "a batch has neither input_ids nor inputs_embeds: count it yourself, with add(batch, length) of the meter"
            )
        batch, length = tokens.shape[:2]
        if not self.architecture.two_inputs:
            return self.add(batch, length)
        targets = next((named[name] for name in ("decoder_input_ids", "labels") if isinstance(named.get(name), Tensor)), None)
        if targets is None:
            raise UserError("a batch of an encoder and a decoder has neither decoder_input_ids nor labels")
        return self.add(batch, targets.shape[1], source_length=length)


def _this_device() -> Hardware:
    """The accelerator of this process, by the name that its driver gives it."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "this processor"
    found = recognised(name)
    if found is None:
        raise UserError(f"{name} is none of the known accelerators: name one as hardware=, of `anyformer list --hardware`")
    return found
