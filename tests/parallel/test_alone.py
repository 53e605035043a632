"""A group of one process: what needs no second one to be seen."""

from __future__ import annotations

import signal

import pytest
import torch
import torch.distributed as dist

from anyformer.mesh import Mesh
from anyformer.training.parallel.launch import disconnect
from anyformer.training.parallel.together import Together
from anyformer.training.stop import Stop, Stopped


@pytest.fixture
def together():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield Together.of(Mesh(data=1), torch.device("cpu"))
    if dist.is_initialized():
        disconnect()


def test_processes_part_at_the_end(together):
    assert dist.is_initialized()
    disconnect()
    assert not dist.is_initialized()


def test_processes_go_on_until_one_of_them_is_asked_to_stop(together):
    def exit_code(stop: Stop) -> int | None:
        try:
            together.meet(stop)
        except Stopped as stopped:
            return stopped.exit_code
        return None

    stop = Stop("computing")
    assert exit_code(stop) is None
    with pytest.raises(Stopped, match="stopped while computing"):
        stop.ask(signal.SIGTERM)
    assert exit_code(stop) == 143
