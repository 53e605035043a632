"""A group of one process: what needs no second one to be seen."""

from __future__ import annotations

import signal

import pytest
import torch
import torch.distributed as dist

from anyformer.mesh import Mesh
from anyformer.training.parallel import launch
from anyformer.training.parallel.launch import LostProcessError, disconnect, joined
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


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (dist.DistBackendError("NCCL communicator was aborted"), True),
        (RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x2 and 3x5)"), False),
    ],
    ids=["of torch", "of gloo", "of the computation"],
)
def test_only_an_error_of_the_connection_is_a_lost_process(together, monkeypatch, error, lost):
    monkeypatch.setattr(launch, "started", lambda: 2)
    monkeypatch.setattr(launch, "mesh_of", lambda asked, processes: Mesh(data=1))
    with pytest.raises(RuntimeError if not lost else LostProcessError) as told, joined(Mesh(), torch.device("cpu")):
        raise error
    assert (told.value is error) == (not lost)
    if lost:
        assert str(error) in str(told.value)
        assert "--resume" in str(told.value)
