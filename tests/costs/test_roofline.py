"""Time by the roofline: by hand, against what was published, and the asymmetry of training and decoding."""

from __future__ import annotations

import json
import time

import pytest
import torch

import anyformer as af
from anyformer.catalogue import listing
from anyformer.costs.calibration import calibrated
from anyformer.costs.compared import Call, clock, priced
from anyformer.costs.hardware import ALIASES, HARDWARE, Efficiency, Hardware, hardware_of
from anyformer.costs.plotting import attention_intensity, draw
from anyformer.costs.roofline import step_time, timed
from anyformer.costs.work import Work
from anyformer.describe import UserError
from anyformer.plan import Plan
from anyformer.tally import Flops, Shape

ALL = Efficiency(matrix=1, attention=1, memory=1, network=1)
TOY = Hardware("toy", "toy", {"fp32": 50.0, "bf16": 100.0}, 10.0, 1e9, 1.0, 1.0, 1, "made up", ALL, launch=0.5)


def call(mode="train", batch=1, length=1024, on="h100", precision="bf16"):
    return Call(mode, batch, length, None, Plan(precision=precision), hardware_of(on))


@pytest.mark.parametrize(
    ("flops", "moved", "kernels", "expected"),
    [
        (1000, 50, 1, (10.0, "compute")),
        (1000, 200, 1, (20.0, "memory")),
        (10, 1, 3, (1.5, "launch")),
    ],
)
def test_the_longest_of_three_waits_decides(flops, moved, kernels, expected):
    assert timed(Work("x", "matrix", Flops(flops, flops), flops, moved, kernels), TOY, "bf16") == expected


def test_shares_of_the_peaks_stretch_time():
    half = TOY.but(efficiency=Efficiency(matrix=0.5, attention=0.25, memory=0.2))
    for unit, seconds in (("matrix", 20.0), ("attention", 40.0)):
        assert timed(Work("x", unit, Flops(1000, 1000), 1000, 1), half, "bf16") == (seconds, "compute")
    assert timed(Work("x", "memory", Flops(), 0, 100), half, "bf16") == (50.0, "memory")


def test_at_the_ridge_both_waits_are_equal():
    ridge = TOY.ridge("bf16")
    assert ridge == 10
    assert timed(Work("x", "matrix", Flops(), int(100 * ridge), 99), TOY, "bf16")[1] == "compute"
    assert timed(Work("x", "matrix", Flops(), int(100 * ridge), 101), TOY, "bf16")[1] == "memory"


def test_a_step_is_the_sum_of_its_operations():
    step = step_time(af.architecture("gemma-2-9b"), Shape(batch=2, length=8192), Plan(), hardware_of("h100"), "train")
    assert step.precision == "bf16"
    assert step.seconds == pytest.approx(sum(operation.seconds for operation in step.by_component))
    assert sum(step.waits_for(bound) for bound in ("compute", "memory", "launch")) == pytest.approx(1)
    assert step.tokens_per_second * step.seconds == pytest.approx(2 * 8192)
    assert step.mfu_exact < step.mfu < step.hardware.efficiency.matrix
    assert step.mfu == pytest.approx(step.flops.dense / step.seconds / 989.4e12)


# Measured and published, tokens/s of one accelerator. Ours counts neither communication nor recomputed activations, nor the
# kernels that a framework does not fuse; but its shares are fitted to whole steps, so it is a bound from above only nearly.
PUBLISHED = {
    "llm.c, GPT-2 124M on H100": ("gpt2", call("train", 64, 1024), 463_000),
    "torchtitan, Llama 3 8B on H100, FSDP2 and compile": ("llama-3-8b", call("train", 1, 8192), 6_667),
    "gpt-fast, Llama 2 7B in bf16 on A100, batch 1": ("llama-2-7b", call("decode", 1, 200, "a100"), 104.9),
}


@pytest.mark.parametrize("run", PUBLISHED)
def test_no_published_run_is_much_faster_and_none_slower_than_half(run):
    name, asked, measured = PUBLISHED[run]
    ratio = measured / priced(name, af.architecture(name), asked).time.tokens_per_second
    assert 0.5 < ratio <= 1.05, ratio


def test_decoding_waits_for_memory_and_training_for_compute():
    llama = af.architecture("llama-3-8b")
    assert priced("", llama, call("decode")).time.waits_for("memory") > 0.95
    assert priced("", llama, call("train", 32, 4096)).time.waits_for("compute") > 0.8


def test_more_experts_in_a_batch_cost_decoding_time_until_all_are_read():
    mixtral = af.architecture("mixtral-8x7b")
    one, many, more = (priced("", mixtral, call("decode", batch, 256)).time.seconds for batch in (1, 32, 64))
    assert 2.5 < many / one < 4.2  # 2 of 8 experts, then all
    assert more / many < 1.1


@pytest.mark.parametrize(("kv_heads", "batch", "length"), [(32, 1, 4096), (32, 64, 1024), (8, 16, 8192), (1, 64, 4096)])
def test_intensity_of_decoding_is_that_of_shazeer(kv_heads, batch, length):
    """2 (2 d^2 + 2 d^2 K/H + 2 n d) b FLOPs over 2 (2 d^2 + 2 d^2 K/H + 2 b n d K/H) bytes, but for vectors of one token."""
    d, share = 4096, kv_heads / 32
    weights = 2 * d * d * (1 + share)
    expected = 2 * batch * (weights + 2 * length * d) / (2 * (weights + 2 * batch * length * d * share))
    assert attention_intensity(d, kv_heads, batch, length, "decode") == pytest.approx(expected, rel=0.06)


def test_the_asymmetry_of_the_notes():
    ridge = hardware_of("h100").ridge("bf16")
    for kv_heads in (32, 8, 1):
        assert attention_intensity(4096, kv_heads, 8, 4096, "train") > ridge
        assert attention_intensity(4096, kv_heads, 8, 4096, "decode") < ridge / 10
    mha, gqa, mqa = (attention_intensity(4096, kv_heads, 64, 4096, "decode") for kv_heads in (32, 8, 1))
    assert 2 * mha < gqa < mqa / 2
    # Large batches, short sequences and wide models help where nothing is shared.
    base = attention_intensity(4096, 32, 8, 4096, "decode")
    assert attention_intensity(4096, 32, 32, 4096, "decode") > base
    assert attention_intensity(4096, 32, 8, 512, "decode") > base
    assert attention_intensity(16384, 128, 8, 4096, "decode") > base


def test_hardware_is_plausible():
    for name, item in HARDWARE.items():
        assert item.name == name
        assert item.source
        # No accelerator has its ridge outside these, unless a figure is off by a unit or counts sparsity.
        assert 20 < item.ridge("bf16") < 420, name
        assert item.network <= item.link <= item.bandwidth, name
    assert all(target in HARDWARE for target in ALIASES.values())
    assert hardware_of("H100-SXM") is HARDWARE["h100"]
    assert hardware_of("v100").peak("bf16") == 125e12


def test_a_generation_has_one_set_of_shares():
    """For the roofline and for layouts alike."""
    assert {hardware_of(name).efficiency for name in ("h100", "h800", "h200")} == {hardware_of("h100").efficiency}
    assert hardware_of("a100-40gb").efficiency is not hardware_of("h100").efficiency
    assert hardware_of("a100").room == int(79.1 * 2**30 * 0.92)


def test_errors_say_what_is_known():
    with pytest.raises(UserError, match="did you mean 'h100'"):
        hardware_of("h10")
    with pytest.raises(UserError, match="A100 SXM 80 GB has no peak for 'fp8'"):
        hardware_of("a100").peak("fp8")
    with pytest.raises(ValueError, match="share of the peak"):
        Efficiency(memory=1.2)


def test_this_machine_is_measured():
    here = calibrated(0.6)
    side, started = 512, time.perf_counter()
    left = torch.ones(side, side)
    for _ in range(4):
        left @ left
    reached = 4 * 2 * side**3 / (time.perf_counter() - started)
    assert reached / 100 < here.peak("fp32") < 1e16
    assert 1e8 < here.bandwidth < 1e14
    assert 1e-8 < here.launch < 1e-2
    assert here.memory > 1e8
    assert here.resolved(Plan()).precision in ("fp32", "bf16")
    assert hardware_of("h100").resolved(Plan(precision="fp32")).precision == "fp32"


@pytest.mark.parametrize("name", ["llama-3.1-405b", "kimi-k2", "t5-11b"])
def test_a_sheet_and_its_time_take_milliseconds(name):
    architecture, spent = af.architecture(name), []
    for _ in range(5):
        started = time.process_time()
        priced(name, architecture, call("decode", 8, 8192))
        spent.append(time.process_time() - started)
    assert min(spent) < 0.05


def test_the_sheet_has_a_time_where_hardware_is_named():
    sheet = af.cost(af.architecture("gpt2"), batch=4, length=1024, hardware="h100")
    assert af.cost(af.architecture("gpt2"), batch=4, length=1024).time is None
    assert json.loads(sheet.json())["time"]["seconds"] == sheet.time.seconds > 0
    slower = af.cost(af.architecture("gpt2"), batch=4, length=1024, hardware=hardware_of("a100").but(bandwidth=1e11))
    assert slower.time.seconds > 2 * sheet.time.seconds


def test_rows_and_warnings():
    small = priced("gpt2", af.architecture("gpt2"), call("prefill", 1, 2048))
    assert "its position table ends at 1,024" in small.warnings()[0]
    large = priced("llama-3.1-405b", af.architecture("llama-3.1-405b"), call("decode", 64, 4096))
    # 811.7 GB of weights and 135.3 GB of state on 80 GB each
    assert large.least_devices == 12
    assert "does not fit into one H100" in large.warnings()[0]
    assert [clock(s) for s in (2.5, 0.0123, 4e-6)] == ["2.5 s", "12.3 ms", "4 us"]


@pytest.mark.parametrize("name", ["bert-base-uncased", "whisper-tiny", "perceiver-imagenet", "vit-base-16", "t5-small"])
@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
def test_every_shape_of_model_has_its_lines(name, mode):
    known = [entry.name for entry in listing()]
    item = priced(name, af.architecture(next(n for n in known if n.startswith(name))), call(mode, 2, 64))
    assert item.time.flops == item.sheet.flops.total
    assert dict(item.rows())["tokens per second"].replace(",", "").isdigit()
    shares = [float(row[5].rstrip("%")) for row in item.operation_rows()]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
    assert json.loads(json.dumps(item.data()))["time"]["seconds"] == item.time.seconds


def test_pictures_are_drawn(tmp_path):
    draw([("gpt2", af.architecture("gpt2")), ("t5-small", af.architecture("t5-small"))], call("decode"), tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 20_000
