"""Updates that are traced: files that a viewer reads, every operation in one kind, and the same numbers as without."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.profiler import ProfilerActivity, profile

from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import DescriptionError, change_all
from anyformer.training import resume, train
from anyformer.training.measured_hardware import remember
from anyformer.training.operation_times import measured, predicted, table
from anyformer.training.run import Run

QUIET = Console(quiet=True)
CPU = torch.device("cpu")


def weights(directory):
    return (directory / "checkpoints" / "step-00000008" / "model.safetensors").read_bytes()


def test_a_traced_run_has_the_same_weights_and_a_file_for_each_update(tiny, tmp_path):
    remember(hardware_of("h100"), CPU)
    traced = change_all(tiny, {"plan.profile": {"steps": [3, 5]}})
    console = Console(record=True, width=200, file=None, quiet=False)
    with console.capture() as said:
        train(traced, tmp_path / "traced", console=console)
    train(tiny, tmp_path / "plain", console=QUIET)
    assert weights(tmp_path / "traced") == weights(tmp_path / "plain")
    places = sorted(path.relative_to(tmp_path / "traced" / "profile") for path in (tmp_path / "traced").rglob("rank*.gz"))
    assert [str(place) for place in places] == ["step-00000003/rank0.json.gz", "step-00000005/rank0.json.gz"]
    with gzip.open(tmp_path / "traced" / "profile" / places[0], "rt") as file:
        names = {event.get("name", "") for event in json.load(file)["traceEvents"]}
    assert {"aten::mm", "aten::addmm"} & names
    assert any(name.startswith("Optimizer.step") for name in names)
    found = json.loads((tmp_path / "traced" / "profile" / "operations.json").read_text())
    assert (found["steps"], found["hardware"]) == ([3, 5], "h100")
    kinds = found["seconds"]
    assert all(kinds[kind]["measured"] > 0 for kind in ("matrix products", "attention", "element-wise", "optimiser"))
    assert kinds["communication"] == {"predicted": 0.0, "measured": 0.0}
    assert kinds["between operations"]["predicted"] is None
    assert "step 5 is traced" in said.get()
    assert "matrix products" in said.get()
    assert not (tmp_path / "plain" / "profile").exists()


def test_a_run_that_goes_on_may_be_traced(tiny, tmp_path):
    remember(hardware_of("h100"), CPU)
    train(tiny.but(steps=4), tmp_path / "run", console=QUIET)
    resume(tmp_path / "run", {"steps": 8, "plan.profile": {"steps": [2, 6]}}, console=QUIET)
    assert [path.parent.name for path in (tmp_path / "run").rglob("rank0.json.gz")] == ["step-00000006"]


def test_steps_are_named_and_counted_from_one(tiny):
    for steps in ([], [0]):
        with pytest.raises(DescriptionError, match=r"profile\.steps"):
            Run.parse(change_all(tiny, {}).plain() | {"plan": {"profile": {"steps": steps}}})


def kinds_of(act) -> set[str]:
    """Kinds of operation that took time, of those that a profiler can see."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        act()
    times = measured(seen.events(), 0.0, 0.0, gpu=False)
    return {kind for kind, seconds in times.items() if seconds > 0}


def test_every_operation_is_of_one_kind():
    x, layer = torch.randn(2, 4, 8, 16), nn.Linear(16, 16)
    assert kinds_of(lambda: torch.mm(x[0, 0], x[0, 0].T)) >= {"matrix products"}
    assert "attention" not in kinds_of(lambda: layer(x))
    assert kinds_of(lambda: nn.functional.scaled_dot_product_attention(x, x, x)) == {"attention"}
    assert "attention" in kinds_of(lambda: x @ x.transpose(-1, -2)), "products of two activations"
    assert kinds_of(lambda: x.exp()) == {"element-wise"}
    layer(x).sum().backward()
    assert kinds_of(torch.optim.AdamW(layer.parameters()).step) == {"optimiser"}


def test_operations_of_a_gpu_take_the_time_of_their_kernels():
    outer = SimpleNamespace(name="aten::linear", cpu_parent=None, self_cpu_time_total=9e6, self_device_time_total=0)
    inner = SimpleNamespace(name="aten::addmm", cpu_parent=outer, self_cpu_time_total=1e6, self_device_time_total=2e6)
    sent = SimpleNamespace(name="c10d::allreduce_", cpu_parent=None, self_cpu_time_total=4e6, self_device_time_total=4e6)
    range_of = SimpleNamespace(
        name="FSDP::all_gather (0)", cpu_parent=None, self_cpu_time_total=7e6, self_device_time_total=7e6
    )
    times = measured([outer, inner, sent, range_of], 10.0, 3.0, gpu=True)
    assert times["matrix products"] == 2.0
    assert times["communication"] == 3.0, "as the clock of exchanges says"
    assert times["between operations"] == 5.0, "and no range that is no operation"
    assert measured([outer, inner, sent], 10.0, 0.0, gpu=False)["matrix products"] == 10.0


def test_processes_share_what_is_predicted_and_copies_do_not_share_the_optimiser(tiny):
    one, hardware = predicted(tiny, hardware_of("h100"), 1), hardware_of("h100")
    four = predicted(change_all(tiny, {"plan.mesh": {"data": 2, "shard": 2}}), hardware, 4)
    assert "communication" not in four
    assert four["matrix products"] == pytest.approx(one["matrix products"] / 4)
    assert four["optimiser"] == pytest.approx(one["optimiser"] / 2)
    assert predicted(tiny, hardware.but(peaks={"fp16": 1e12}), 1) == {}


def test_the_table_has_a_dash_where_nothing_is_predicted():
    lines = table({"attention": 0.002}, {"attention": 0.003, "optimiser": 0.001})
    assert lines[1].split() == ["attention", "2.00", "ms", "3.00", "ms", "75.0%"]
    assert lines[2].split() == ["optimiser", "-", "1.00", "ms", "25.0%"]
