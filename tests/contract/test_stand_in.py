"""On a device that is not there, every step stays on its device, and waits for no more than is listed.

Registering a device changes what torch says of accelerators in the whole process, so all of it runs in processes of its own.
What those run imports training, for a second: tests import it when they need it, and not every worker that collects them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from zoo import ZOO

from anyformer.testing.stand_in import Wait
from anyformer.testing.traits import decodes_tokens
from covering import cover, kinds, remembering

ROOT = Path(__file__).parents[2]
OBJECTIVES = ("causal", "masked", "span_corruption", "dpo", "replaced_tokens", "distillation", "images")
"""Of the objectives those that are always run: one of each shape of a step."""


def python(*arguments: str, given: str = "") -> list[str]:
    """The lines that a process of its own prints."""
    paths = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], input=given, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def results(*names: str) -> list[dict]:
    return [json.loads(line) for line in python("-m", "benchmarks.operators", "--json", *names)]


def hold(found: list[dict]) -> None:
    """The waits are those listed, and losses those of a processor, whose kernels are others."""
    from benchmarks.operators import listed, waits_of

    known, waits = listed((each["group"], each["name"]) for each in found), waits_of(found)
    assert not waits - known, f"not in benchmarks/waits.toml: {sorted(waits - known)}"
    assert not known - waits, f"in benchmarks/waits.toml, and happens no more: {sorted(known - waits)}"
    for each in found:
        assert each["calls"], each["name"]
        if "losses" in each:
            assert each["losses"][0] == pytest.approx(each["losses"][1], rel=1e-4, abs=1e-4), each["name"]


def test_architectures_with_every_kind_of_part_wait_for_no_more_than_is_listed():
    from benchmarks.operators import LOOPS, OPTIMISERS

    trained, states = cover(ZOO, kinds), cover({name: each for name, each in ZOO.items() if decodes_tokens(each)}, remembering)
    steps = [*(f"train {name}" for name in sorted(trained)), *(f"decode {name}" for name in sorted(states))]
    found = results(*steps, *OBJECTIVES, *LOOPS, *(each.kind for each in OPTIMISERS))
    assert {f"{each['group']} {each['name']}" for each in found} >= {*steps}
    assert {each["name"] for each in found} >= {*OBJECTIVES, *LOOPS}
    hold(found)


@pytest.mark.slow
def test_all_cases_wait_for_no_more_than_is_listed():
    hold(results())


def steps() -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The training and decode steps that the result has, and those that there are."""
    from benchmarks.operators import RESULT

    rows = {(each["group"], each["name"]) for each in json.loads(RESULT.read_text())["results"]}
    expected = {("train", name) for name in ZOO} | {("decode", name) for name in ZOO if decodes_tokens(ZOO[name])}
    return {row for row in rows if row[0] in ("train", "decode")}, expected


def test_the_result_has_no_row_of_a_step_that_is_gone():
    from benchmarks.operators import LOOPS, RESULT

    rows, expected = steps()
    assert rows <= expected, "run `python -m benchmarks.operators`"
    loops = {each["name"] for each in json.loads(RESULT.read_text())["results"] if each["group"] == "generation"}
    assert loops == set(LOOPS)


@pytest.mark.slow
def test_the_result_has_a_row_for_every_step():
    """Of a new entry of the zoo too, before a release: the run takes a minute."""
    rows, expected = steps()
    assert rows == expected, "run `python -m benchmarks.operators`"


MISTAKES = {
    "a mask's positions on the processor": ("x + torch.arange(4)", {("makes", "aten::arange"), ("mixes", "aten::add.Tensor")}),
    "numbers given as a list": ("x[:, [0, 2]]", {("moves", "aten::_copy_from")}),
    "a tensor of Python's numbers": ("x * torch.tensor([1.0, 2, 3, 4], device=x.device)", {("moves", "aten::_copy_from")}),
    "a router that reads its counts": ("x * x.sum().item()", {("reads", "aten::_local_scalar_dense")}),
    "a condition": ("x if (x > 0).any() else -x", {("reads", "aten::_local_scalar_dense")}),
    "a slice as long as a tensor says": ("x[:, : x.argmax()]", {("reads", "aten::_local_scalar_dense")}),
    "rows as numbers of Python": ("x.argmax(1).tolist()", {("reads", "tolist")}),
    "a copy to the processor": ("x.cpu()", {("moves", "aten::_to_copy")}),
    "a copy from the processor": ("x.copy_(torch.zeros(4))", {("makes", "aten::zeros"), ("moves", "aten::copy_")}),
    "where a mask is true": ("(x > 0).nonzero()", {("sizes", "aten::nonzero")}),
    "what a mask leaves": ("x[x > 0]", {("sizes", "aten::index.Tensor")}),
    "one-hot of unknown classes": (
        "torch.nn.functional.one_hot(x.argmax(1))", {("reads", "aten::_local_scalar_dense")}
    ),
    "repeated by counts": ("x.repeat_interleave(x.argmax(1), 0)", {("sizes", "aten::repeat_interleave.Tensor")}),
    "a comparison": ("torch.equal(x, x)", {("reads", "aten::equal")}),
}  # fmt: skip
"""Code -> why a GPU waits for it, and where."""
FINE = (
    "x[:, torch.arange(2, device=x.device)]", "torch.where(x > 0, x, 0.0)", "x.masked_fill(x > 0, 0.0)", "x.topk(2)[0]",
    "x + torch.arange(4, device=x.device)", "torch.full((), 2.0, device=x.device) * x", "x.sort()[0].cumsum(1)",
    "x.scatter(1, x.argsort(1), 0.0)", "torch.nn.functional.one_hot(x.argmax(1), 4)", "x.requires_grad_().sum().backward()",
)  # fmt: skip
WATCHED = """
import json, sys, torch
from anyformer.parts.experts.grouped import grouped_product
from anyformer.testing.stand_in import StandIn, leave, stand_in
for code in json.load(sys.stdin):
    with StandIn() as watch:
        x = torch.randn(3, 4, device=stand_in())
        with watch.watched():
            eval(code)
    print(json.dumps(sorted({(wait.why, wait.operator) for wait in watch.waits})))
with StandIn() as watch:
    rows, weight = (torch.randn(*sizes, device=stand_in(), dtype=torch.bfloat16) for sizes in ((8, 16), (3, 24, 16)))
    ends = torch.arange(2, 9, 3, device=stand_in())
    with watch.watched():
        grouped_product(rows.requires_grad_(), weight.requires_grad_(), ends).sum().backward()
print(json.dumps([("calls", "aten::_grouped_mm", watch.calls["aten::_grouped_mm"]), *map(str, watch.waits)]))
leave()
"""


@pytest.fixture(scope="module")
def seen() -> dict[str, set[tuple]]:
    """What was put down of every code, and of a product of experts in bf16, forward and backward."""
    codes = [code for code, _ in MISTAKES.values()] + list(FINE)
    lines = zip([*codes, "grouped"], python("-c", WATCHED, given=json.dumps(codes)), strict=True)
    return {code: set(map(tuple, json.loads(line))) for code, line in lines}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_seen(name, seen):
    code, waits = MISTAKES[name]
    assert seen[code] >= waits


@pytest.mark.parametrize("code", FINE)
def test_what_stays_on_the_device_is_not_told(code, seen):
    assert seen[code] == set()


def test_experts_in_bf16_train_by_kernels_that_wait_for_no_counts(seen):
    assert seen["grouped"] == {("calls", "aten::_grouped_mm", 3)}


def test_a_wait_that_is_not_listed_and_one_that_is_gone_are_told():
    from benchmarks.operators import listed

    llama = {"group": "train", "name": "llama", "calls": {"aten::mm": 1}}
    listed_alone = [wait for _, _, wait in listed([("train", "llama")])]
    rows = [{"where": wait.where, "operator": wait.operator, "why": wait.why} for wait in listed_alone]
    hold([{**llama, "waits": rows}])
    with pytest.raises(AssertionError, match="happens no more"):
        hold([{**llama, "waits": rows[1:]}])
    new = Wait("parts/masks/mask.py allowed", "aten::arange", "makes")
    with pytest.raises(AssertionError, match=r"not in benchmarks/waits\.toml"):
        hold([{**llama, "waits": [*rows, {"where": new.where, "operator": new.operator, "why": new.why}]}])
