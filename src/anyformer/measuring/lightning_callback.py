"""MFU in the logs of Lightning: `Trainer(..., callbacks=[LightningMfuCallback("llama-3-8b")])`."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback
from torch import nn
from torch.utils.hooks import RemovableHandle

from anyformer.costs.hardware import Hardware
from anyformer.costs.utilisation import PairsCounted
from anyformer.measuring.utilisation import UtilisationMeter
from anyformer.resolving import ArchitectureLike


class LightningMfuCallback(Callback):  # type: ignore[misc]
    """Logs `mfu` after every `every` batches, of this process since the time before, without validation.

    `what`: the architecture that is trained, however named. `watched`: the path in the module of the model that is called with
    tokens. `hardware`: by default what the driver's name says. `together`: accelerators that share one batch.
    """

    def __init__(
        self,
        what: ArchitectureLike,
        *,
        watched: str = "model",
        every: int = 50,
        hardware: str | Hardware | None = None,
        together: int = 1,
        pairs: PairsCounted = "exact",
    ) -> None:
        self._what, self._watched, self._every = what, watched, every
        self._hardware, self._together, self._pairs = hardware, together, pairs
        self.meter: UtilisationMeter | None = None
        self._hook: RemovableHandle | None = None

    def on_train_start(self, trainer: Any, pl_module: nn.Module) -> None:
        """Price the architecture, and watch the model's batches."""
        number = str(trainer.precision)
        precision = "bf16" if "bf16" in number else "fp16" if number.startswith("16") else "fp32"
        options = {"precision": precision, "together": self._together, "pairs": self._pairs}
        self.meter = UtilisationMeter(self._what, hardware=self._hardware, **options)  # type: ignore[arg-type]
        self._hook = self.meter.watch(pl_module.get_submodule(self._watched))

    def on_train_batch_start(self, trainer: Any, pl_module: nn.Module, batch: Any, batch_idx: int) -> None:
        assert self.meter is not None
        self.meter.begin()

    def on_train_batch_end(self, trainer: Any, pl_module: nn.Module, outputs: Any, batch: Any, batch_idx: int) -> None:
        assert self.meter is not None
        self.meter.end()
        if (batch_idx + 1) % self._every == 0 and self.meter.mfu is not None:
            pl_module.log("mfu", self.meter.mfu)  # type: ignore[operator]
            self.meter.reset()

    def on_validation_start(self, trainer: Any, pl_module: nn.Module) -> None:
        """What was seen before is not logged: its seconds would hold those of the validation."""
        if self.meter is not None:
            self.meter.reset()

    def on_train_end(self, trainer: Any, pl_module: nn.Module) -> None:
        if self._hook is not None:
            self._hook.remove()
