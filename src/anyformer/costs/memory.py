"""What training keeps for each parameter from step to step; with all else that a step holds: `peak.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class States:
    """Bytes per parameter that stay from step to step; `master`: an fp32 copy of weights that are themselves narrower.

    Adam's two moments in fp32 are 8 (Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054, section 3.1).
    """

    weights: int = 4
    gradients: int = 4
    optimiser: int = 8
    master: int = 0


ADAM_FP32 = States()
"""Weights in fp32, which is also how this library trains under `precision = "bf16"`: products read copies in bf16."""
ADAM_BF16 = States(weights=2, gradients=2, master=4)
"""Weights and gradients in bf16 beside an fp32 master copy: 16 bytes per parameter, as in ZeRO, section 3.1."""
