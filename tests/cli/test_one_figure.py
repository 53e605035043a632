"""One figure for one question, wherever it is asked, and the format said beside it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from anyformer.costs.hardware import HARDWARE
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.sheet import MODES
from anyformer.describe import UserError
from anyformer.plan import Plan
from anyformer.planning import Layout, price_layout


def said(*arguments):
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "1000"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_decode_state_is_the_same_from_all_five():
    """2 x 32 layers x 8 heads x 128 x 2 bytes of Llama 3 8B, in bf16, which the output says."""
    for sheet in (af.cost("llama-3-8b"), af.cost("llama-3-8b", mode="decode"), af.cost("llama-3-8b", hardware="h100")):
        assert sheet.state_bytes_per_token == 131_072
        assert sheet.precision == "bf16"
    for verb in (("cost", "llama-3-8b", "--length", "1k"), ("show", "llama-3-8b")):
        output = said(*verb)
        assert "131,072 B" in output, verb
        assert "in bf16" in output, verb
    assert "131.1 kB" in said("diff", "gpt2", "llama-3-8b", "--length", "1024")
    assert "(131,072 bytes per token)" in said("plan", "llama-3-8b", "--serve")
    assert "bf16 (131,072" in said("plan", "llama-3-8b", "--serve")


def test_an_unresolved_plan_means_one_thing():
    auto, bf16 = Plan(), Plan(precision="bf16")
    assert auto.number == bf16.number == "bf16"
    made = af.architecture("llama-12m")
    for mode in MODES:
        ours, theirs = (af.cost(made, mode=mode, plan=plan).data() for plan in (auto, bf16))
        assert ours == theirs


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize("length", [512, 8192])
def test_cost_and_plan_say_the_same_memory_of_one_device(length, checkpointing):
    """Weights, gradients, optimiser state and all else, at the peak; 16 bytes a parameter stay or come."""
    made, plan = af.architecture("llama-3-8b"), Plan(precision="bf16", checkpointing=checkpointing)
    sheet = af.cost(made, length=length, plan=plan)
    planned = price_layout(made, Layout(checkpointing=checkpointing), length=length)
    assert planned.memory == sheet.memory
    assert sheet.memory.total == sheet.peak.total == sheet.required_bytes
    assert sheet.peak.update == 16 * sheet.params.total
    data = sheet.data()["memory"]
    assert sum(size for name, size in data.items() if name not in ("total", "saved")) == data["total"]


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_what_is_computed_again_is_what_was_asked_for(checkpointing):
    """On one accelerator the layout is the sheet; where nothing is asked for, the planner chooses."""
    asked = ("cost", "gpt2", "--mode", "train", "--gpus", "1", "--json")
    (answer,), (free,) = (json.loads(said(*asked, *more)) for more in (("--checkpointing", checkpointing), ()))
    (sheet,), found = answer["sheets"], answer["training_on"]["layout"]
    assert found["layout"]["checkpointing"] == sheet["checkpointing"] == checkpointing
    assert found["memory"] == {what: size for what, size in sheet["memory"].items() if what != "saved"}
    assert found["seconds"] == pytest.approx(sheet["time"]["seconds"], rel=1e-9)
    assert free["training_on"]["layout"]["layout"]["checkpointing"] == free["sheets"][0]["checkpointing"] == "none"


def test_advice_is_what_helps():
    output = " ".join(said("plan", "llama-3-8b", "--gpus", "1", "--length", "2k", "--batch-tokens", "2k").split())
    assert output.startswith("No: llama-3-8b on 1 h100")
    assert "128.5 GB of it are weights, gradients and optimiser state, which neither a shorter length nor" in output
    assert "--gpus 2 fits" in output
    assert "--length" not in output
    assert json.loads(said("plan", "llama-3-8b", "--gpus", "2", "--length", "2k", "--batch-tokens", "4k", "--json"))["fastest"]


def test_what_does_not_fit_never_stands_under_fits():
    output = said("cost", "llama-2-13b", "--length", "8k", "--batch", "64", "--gpus", "8")
    assert output.index("has no room for weights and this decode state") < output.index("fits")
    assert "has no room for a training step" not in output
    assert output.index("Training on 8 x H100") < output.index("Parameters")
    with pytest.raises(
        UserError, match=r"--gpus lays a training step out, and --mode is decode: `anyformer plan NAME --serve`"
    ):
        said("cost", "llama-2-13b", "--mode", "decode", "--gpus", "8")
    alone = said("cost", "llama-2-13b", "--mode", "decode", "--batch", "64")
    assert "`anyformer plan NAME --serve`" in alone
    assert "training" not in alone


def test_plans_say_what_position_tables_hold():
    assert "16,384 x 197 tokens per step" in said("plan", "vit-base-16")
    assert "the decoder's position table ends at 1,024, so it cannot be run at 8,192" in said("plan", "gpt2", "--length", "8k")


@pytest.mark.parametrize(("wrong", "right"), [("h1000", "h100"), ("a100-80gb-sxm", "a100-80gb"), ("mi300", "mi300x")])
def test_hardware_is_suggested(wrong, right):
    with pytest.raises(UserError, match=f"no hardware is called '{wrong}'; did you mean '{right}'"):
        hardware_of(wrong)


def test_a_sheet_is_one_line_in_a_shell_and_a_table_in_a_notebook():
    sheet = af.cost("llama-3-8b", length=2048, hardware="h100")
    assert repr(sheet).startswith("<CostSheet of decoder-only, train, batch 1 x 2,048 tokens, bf16: parameters 8,030,261,248, ")
    assert len(repr(sheet)) < 300
    assert "131,072 B in bf16" in repr(sheet)
    table = sheet._repr_html_()
    assert table.startswith("<table>")
    assert "<tr><th>parameters</th><td>8,030,261,248</td></tr>" in table


def test_no_share_of_a_peak_exceeds_it():
    """With windows far fewer pairs are computed than there are: all of them counted would be more than the peak."""
    for mode in MODES:
        time = af.cost("mistral-7b-v0.1", mode=mode, length=1 << 20, hardware="h100").time
        assert time.mfu is None or time.mfu <= 1
        assert 0 < time.mfu_exact <= 1
        assert time.bandwidth_used <= 1
    assert af.cost("mistral-7b-v0.1", mode="prefill", length=1 << 20, hardware="h100").time.mfu is None
    assert all(0 < hardware.efficiency.matrix <= 1 for hardware in HARDWARE.values())


def test_what_is_too_small_says_so():
    small = said("cost", "llama-12m", "--tiny", "--length", "16")
    assert "the training step is too small to predict: launching kernels is" in small
    assert "too small" not in said("cost", "llama-3-8b")
