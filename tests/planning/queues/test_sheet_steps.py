"""Steps of an engine against the cost sheet's, kernel by kernel."""

from __future__ import annotations

import numpy as np
import pytest

import anyformer as af
from anyformer.costs.inference import decode_state
from anyformer.costs.kernels import kernels
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.roofline import step_of, timed
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning.layout import Layout
from anyformer.planning.queues.curve import LengthCurve
from anyformer.planning.queues.engine import EngineRules
from anyformer.planning.queues.requests import ArrivingRequests
from anyformer.planning.queues.sheet_steps import SheetSteps
from anyformer.planning.queues.simulate import Fleet, simulate
from anyformer.planning.queues.steps import PromptChunk
from anyformer.planning.serving import LayoutSearch, serve

H100, BF16 = hardware_of("h100"), Plan(precision="bf16")


def steps_of(name, layout=None, length=1000, users=1, on=H100):
    return SheetSteps(LayoutSearch(af.architecture(name), users, length, on, "bf16", BF16), layout or Layout())


def sheet(made, mode, batch, length, past=0):
    """Seconds by component of a sheet of these sizes."""
    shape = Shape(batch=batch, length=length, past=past, source=0)
    found = step_of(kernels(made, shape, BF16, mode), shape, "bf16", H100, mode)
    return found.seconds, sum(each.seconds for each in found.operations if each.component == "head")


def prefill(made, length):
    """Seconds of a prompt, whose last position alone passes the head: that of a decoding step."""
    return sheet(made.but(head=None, mtp=None), "prefill", 1, length)[0] + sheet(made, "decode", 1, 1, length)[1]


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt2", "gemma-3-12b", "gpt-oss-20b"])
def test_one_request_alone_takes_what_the_sheets_say(name):
    """The prompt's sheet, with the head of one row, then one decoding sheet after the other."""
    made, steps = af.architecture(name), steps_of(name)
    alone = ArrivingRequests(*(np.array([each]) for each in (0.0, 64, 30, 0, 0, 29)))
    found = simulate(Fleet(steps, EngineRules(1, 4096)), alone)
    first = prefill(made, 64)
    assert found.ttft[0] == pytest.approx(first, rel=1e-9)
    later = sum(sheet(made, "decode", 1, 1, 64 + i)[0] for i in range(29))
    assert found.latency[0] == pytest.approx(first + later, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "off"),
    [("llama-3-8b", 1e-9), ("gemma-3-12b", 1e-9), ("gpt-oss-20b", 1e-4), ("deepseek-v3", 3e-3), ("mamba2-2.7b", 1e-2)],
)
def test_prompts_and_texts_of_any_length(name, off):
    """Recurrent ones compute whole chunks of their own, and a number of experts is not of second degree."""
    made, steps = af.architecture(name), steps_of(name)
    for length in (2, 63, 65, 777, 5000):
        assert steps.step(0, 0.0, [PromptChunk(length, 0)], 1) == pytest.approx(prefill(made, length), rel=off)
        for rows in (1, 7):
            expected, _ = sheet(made, "decode", rows, 1, length)
            assert steps.step(rows, rows * length, [], 0) == pytest.approx(expected, rel=off)


@pytest.mark.parametrize(("name", "off"), [("llama-3-8b", 1e-9), ("gemma-3-12b", 1e-9), ("deepseek-v3", 3e-3)])
def test_chunks_take_what_the_sheet_says_of_them(name, off):
    made, steps = af.architecture(name).but(head=None, mtp=None), steps_of(name)
    for tokens, past in ((512, 512), (200, 4096), (64, 100)):
        expected, _ = sheet(made, "prefill", 1, tokens, past)
        assert steps.step(0, 0.0, [PromptChunk(tokens, past)], 0) == pytest.approx(expected, rel=off)


def test_a_pass_of_both_reads_the_weights_once():
    """Less than the passes of both by a reading of the weights, and the rest is as it was."""
    steps = steps_of("llama-3-8b")
    chunk = [PromptChunk(32, 100)]
    apart = steps.step(16, 16_000, [], 0) + steps.step(0, 0.0, chunk, 0)
    weights = sum(kernel.weights * kernel.layers for kernel in kernels(af.architecture("llama-3-8b"), Shape(), BF16, "decode"))
    saved = apart - steps.step(16, 16_000, chunk, 0)
    assert saved == pytest.approx(weights / (H100.bandwidth * H100.efficiency.memory), rel=0.08)


@pytest.mark.parametrize(("name", "layout"), [("llama-3-70b", Layout(tp=8)), ("deepseek-v3", Layout(dp=32, ep=32))])
def test_many_ranks_take_what_the_plan_of_serving_says(name, layout):
    made = af.architecture(name)
    plan = serve(made, users=32, length=4000, accelerators=layout.ranks)
    steps = steps_of(name, plan.layout, 4000, 32)
    assert steps.step(32, 32 * 4000, [], 0) == pytest.approx(plan.step, rel=2e-3)
    assert steps.lanes == plan.layout.dp * plan.layout.pp


def test_states_and_room_are_those_of_the_sheet():
    made, steps = af.architecture("gemma-3-12b"), steps_of("gemma-3-12b")
    for length in (1, 100, 1024, 1500, 9000):
        state = decode_state(made, context=length, plan=BF16)
        assert steps.held(length) == state.total - state.positions
    weights = 2 * made.cost(Shape()).parameters
    assert steps.room == pytest.approx(H100.usable_memory - weights, rel=1e-6)


def test_windows_of_texts_of_many_lengths_are_counted_at_most_in_full():
    """A short and a long text: the mean of their lengths has at most one window more for each than they have."""
    made, steps = af.architecture("gemma-3-12b"), steps_of("gemma-3-12b")
    mean = steps.step(2, 100 + 20_000, [], 0)
    shorter, longer = (sheet(made, "decode", 2, 1, length)[0] for length in (100, 20_000))
    true = (shorter + longer) / 2
    mixing = [kernel for kernel in kernels(made, Shape(past=20_000), BF16, "decode") if kernel.unit == "attention"]
    windows = max(timed(kernel, H100)[0] * kernel.layers for kernel in mixing if kernel.state < 1e7)
    assert true <= mean * (1 + 1e-9) <= true + 2 * windows


def test_a_curve_is_asked_seldom_and_right():
    asked = []

    def figures(length):
        asked.append(length)
        return float(length * length + 3), float(min(length, 1024))

    curve = LengthCurve(figures)
    for length in (1, 2, 63, 64, 65, 1023, 1024, 1025, 4096, 4097, 70_000, 131_072):
        assert curve.at(length) == pytest.approx((length * length + 3, min(length, 1024)))
    assert curve.at(0) == (0.0, 0.0)
    before = len(asked)
    assert curve.at(4096.5)[0] == pytest.approx(4096.5**2 + 3)
    assert curve.at(60)[0] == pytest.approx(3603)
    assert len(asked) == before, "what lies between is not asked again"
