"""What the cost sheet foretells of our server on this machine, whose products and memory are measured first."""

from __future__ import annotations

from pathlib import Path

import anyformer as af
from anyformer.costs.calibration import calibrated
from anyformer.plan import Plan

CALIBRATION = 3.0
"""Seconds of measuring the machine."""


def foretold(model: Path, texts: int, prompt: int, tokens: int) -> dict[str, dict[str, float]]:
    """Seconds to a first token and tokens a second of one client, and of as many as there are places.

    A prompt is read alone, and a step gives every text a token: n clients have n prompts read for `tokens` steps of n rows.
    """
    architecture, hardware = af.architecture(str(model)), calibrated(CALIBRATION, "cpu")

    def seconds(mode: str, rows: int, length: int) -> float:
        sheet = af.cost(architecture, batch=rows, length=length, mode=mode, plan=Plan(precision="fp32"), hardware=hardware)
        assert sheet.time is not None, "hardware was given"
        return sheet.time.seconds

    reading = seconds("prefill", 1, prompt)
    found = {}
    for name, rows in (("one", 1), ("full", texts)):
        step = seconds("decode", rows, prompt + tokens // 2)
        whole = rows * reading + (tokens - 1) * step
        found[name] = {"first_token_seconds": round(reading, 4), "tokens_per_second": round(rows * tokens / whole, 1)}
    return found
