"""The machine is not measured again for every run."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
import torch

from anyformer.training import loop
from anyformer.training.precision import Host


@pytest.fixture(scope="package", autouse=True)
def _measured() -> Iterator[None]:
    host = Host(torch.device("cpu"), {"fp32": 1e12, "bf16": 1e12})
    with mock.patch.object(loop, "measured_host", return_value=host):
        yield
