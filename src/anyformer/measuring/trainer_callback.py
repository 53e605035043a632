"""MFU in the logs of transformers' `Trainer`: `Trainer(..., callbacks=[MfuCallback()])`."""

from __future__ import annotations

import json
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle
from transformers import TrainerCallback

from anyformer.costs.hardware import Hardware
from anyformer.costs.utilisation import PairsCounted
from anyformer.measuring.utilisation import UtilisationMeter
from anyformer.resolving import ArchitectureLike

_PEAKS = {"bf16": "bf16", "fp16": "fp16", "tf32": "tf32"}
"""Setting of the trainer's arguments -> the number format whose peak it has; without any, fp32."""


class MfuCallback(TrainerCallback):  # type: ignore[misc]
    """Adds `mfu` to every entry of the trainer's log, of this process since the entry before, without evaluations and saving.

    `what`: the architecture, by default that of the model's own configuration. `hardware`: by default what the driver's name
    says. `together`: accelerators that share one batch. `pairs`: `dense` counts masked pairs too.
    """

    def __init__(
        self,
        what: ArchitectureLike | None = None,
        *,
        hardware: str | Hardware | None = None,
        together: int = 1,
        pairs: PairsCounted = "exact",
    ) -> None:
        self._what, self._hardware, self._together, self._pairs = what, hardware, together, pairs
        self.meter: UtilisationMeter | None = None
        self._hook: RemovableHandle | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, *, model: nn.Module, **more: Any) -> None:
        """Price the model's configuration, and watch its batches."""
        precision = next((_PEAKS[name] for name in _PEAKS if getattr(args, name, None)), "fp32")
        what = json.loads(model.config.to_json_string()) if self._what is None else self._what  # type: ignore[operator, union-attr]
        options = {"precision": precision, "together": self._together, "pairs": self._pairs}
        self.meter = UtilisationMeter(what, hardware=self._hardware, **options)  # type: ignore[arg-type]
        self._hook = self.meter.watch(model)

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        assert self.meter is not None
        self.meter.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        assert self.meter is not None
        self.meter.end()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any) -> None:
        """Write into what is printed and into the trainer's history, and begin anew."""
        if self.meter is None or self.meter.mfu is None or logs is None or "loss" not in logs:
            return
        for entry in (logs, state.log_history[-1]):
            entry["mfu"] = self.meter.mfu
        self.meter.reset()

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._hook is not None:
            self._hook.remove()
