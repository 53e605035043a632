"""Programs of figures: what declared costs are as expressions, against the costs themselves at other numbers."""

from __future__ import annotations

import json
import random
import re
from math import ceil, floor, prod

import pytest
from benchmarks.atlas import RESULTS, differs, drawn_change, figures_of, sheets
from hypothesis import given, settings
from hypothesis import strategies as st

import anyformer as af
from anyformer.atlas.evaluator import CALL, FigureProgram, ProgramPiece, Programs, inputs_of, program_of
from anyformer.atlas.evaluator_absent import FollowingNumber
from anyformer.atlas.evaluator_number import NumberTrace
from anyformer.atlas.evaluator_pairs import pair_formula
from anyformer.atlas.evaluator_places import places
from anyformer.atlas.evaluator_trace import substituted, tracing
from anyformer.costs.hardware import HARDWARE
from anyformer.describe import DescriptionError, change, change_all
from anyformer.exploring.question import PricedCall
from anyformer.exploring.site_times import accelerator_numbers, site_pieces
from anyformer.parts.masks import mask as masks
from anyformer.parts.masks.pairs import count_pairs
from anyformer.parts.masks.simple import Causal, Window
from anyformer.parts.masks.sparse import BlockWindow, Chunk, VerticalStride

SAMPLED = ("gpt2", "gemma-2-2b", "t5-small", "mamba-130m", "mixtral-8x7b", "vit-base-16")
CALLED = (1, 512, 512)


@pytest.fixture(scope="module")
def programs() -> Programs:
    return Programs()


@pytest.mark.parametrize("name", SAMPLED)
def test_changes_are_priced_to_the_unit_and_what_is_refused_has_no_answer(name, programs):
    made, drawn, answered = af.architecture(name), random.Random(name), 0
    program, inputs = programs.of(made, CALLED)
    sheet = {"inputs": places(made, program, inputs), "call": {"batch": 1, "length": 512}}
    for _ in range(12):
        changed = drawn_change(drawn, name, sheet)
        if any(path.endswith(".kind") and text == "causal" for path, text in changed.changes):
            continue  # it keeps the size, and is refused by its words
        numbers = _numbers(sheet, changed)
        page, ours = program.evaluate(numbers), changed.ours()
        if page is not None:
            assert ours is not None, changed
            assert not differs(json.loads(json.dumps(page)), json.loads(json.dumps(ours))), changed
            answered += 1
    assert answered


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gpt2", {"kv_heads": 4}),
        ("gpt2", {"heads": 16, "head_width": 128}),
        ("gpt2", {"heads": 24}),
        ("gpt2", {"heads": 7}),
        ("llama-2-7b", {"kv_heads": None, "heads": 16}),
        ("llama-3-8b", {"kv_heads": None, "head_width": None, "heads": 64}),
        ("llama-3-8b", {"head_width": None, "heads": 7}),
    ],
)
def test_a_number_that_may_be_absent_is_given_and_taken_away(name, changes, programs):
    made, path = af.architecture(name), "decoder.layer.attention"
    program, inputs = programs.of(made, CALLED)
    numbers = [*CALLED, *(None if each.absent else each.value for each in inputs)]
    assert differs(program.evaluate(numbers), figures_of(made, 1, 512)) is False
    for at, each in enumerate(inputs, len(CALLED)):
        if each.keys[-2:-1] == ("sublayer",) and each.keys[-1] in changes:
            numbers[at] = changes[each.keys[-1]]
    page = program.evaluate(numbers)
    try:
        ours = figures_of(change_all(made, {f"{path}.{word}": value for word, value in changes.items()}), 1, 512)
    except DescriptionError:
        assert page is None
    else:
        assert page is not None
        assert not differs(json.loads(json.dumps(page)), json.loads(json.dumps(ours)))


@pytest.mark.parametrize(
    ("name", "path", "mask"),
    [
        ("gpt2", "decoder.layer.attention.mask", {"kind": "window", "size": 100}),
        ("gpt2", "decoder.layer.attention.mask", {"kind": "window", "size": 5000}),
        ("gemma-2-2b", "decoder.local.attention.mask", {"kind": "causal"}),
        ("gemma-2-2b", "decoder.global.attention.mask", {"kind": "window", "size": 64}),
    ],
)
def test_a_window_is_given_and_taken_away(name, path, mask, programs):
    made = af.architecture(name)
    program, inputs = programs.of(made, CALLED)
    numbers = [None if each.absent else each.value for each in inputs]
    variant = path.split(".")[1]
    (at,) = [at for at, each in enumerate(inputs) if each.kinds and variant in each.keys]
    assert inputs[at].kinds == ("causal", "window")
    numbers[at] = mask.get("size")
    page = program.evaluate([*CALLED, *numbers])
    assert not differs(json.loads(json.dumps(page)), json.loads(json.dumps(figures_of(change(made, path, mask), 1, 512))))
    numbers[at] = None
    assert program.evaluate([1, 2**31 - 1, 1, *numbers]) is not None
    assert program.evaluate([1, 2**31, 1, *numbers]) is None, "no window is as wide"


def test_what_is_absent_may_be_what_another_absent_one_is():
    absent = {1: FollowingNumber(1, ()), 2: FollowingNumber(2, ((2, True),))}
    program = FigureProgram((("take", 0), ("+", 0, 0), ("take", 1), ("take", 2)), (ProgramPiece((), {"is": {"=": 3}}),), absent)
    assert program.evaluate([3, None, None]) == {"is": 6}
    assert program.evaluate([3, 5, None]) == {"is": 5}
    assert program.evaluate([0, None, None]) is None


@pytest.mark.parametrize("name", ["gemma-2-2b", "bert-base-uncased"])
def test_one_program_times_every_accelerator_at_any_rate(name):
    made, call = af.architecture(name), PricedCall(rate=7.25)
    numbers = (1, 512, 512, *accelerator_numbers(call, "h100"))
    program, inputs = program_of(made, numbers, site_pieces(call))
    for on in HARDWARE:
        page = program.evaluate([3, 300, 300, *accelerator_numbers(call, on), *(each.value for each in inputs)])[
            "accelerators"
        ][0]
        (ours,) = figures_of(made, 3, 300, on, 7.25)["accelerators"]
        assert page["modes"].keys() == ours["modes"].keys(), on
        assert not differs({"accelerators": [page]}, json.loads(json.dumps({"accelerators": [ours]}))), on


def _by_kind(place, texts):
    """The number that a part in a place gives or takes away, else what stands there."""
    parts = [path.rpartition(".")[0] for path in place["paths"] if "kinds" in place]
    for text in (texts[path] for path in parts if path in texts):
        size = re.search(r"size = (\d+)", text)
        return size[1] if size else "none"
    return str(place["now"])


def _numbers(sheet, changed):
    """The inputs of a change, read as the page reads them."""
    long = changed.call["length"]
    numbers, texts = {0: changed.call["batch"], 1: long, 2: long}, dict(changed.changes)
    for place in sheet["inputs"]:
        text = next((texts[path] for path in place["paths"] if path in texts), _by_kind(place, texts))
        if text in ("none", "None"):
            numbers[place["at"][0]] = None
            continue
        found = re.findall(r"(?<=\*)\d+" if isinstance(place["now"], str) else r"-?\d+", text)
        numbers |= dict(zip(place["at"], map(int, found), strict=True))
    return [numbers[at] for at in range(len(numbers))]


def test_an_entry_of_the_same_structure_takes_the_same_program(programs):
    larger = af.architecture("llama-2-13b")
    (first, _), (second, inputs) = (programs.of(made, CALLED) for made in (af.architecture("llama-2-7b"), larger))
    assert first is second
    page = first.evaluate([*CALLED, *(each.value for each in inputs)])
    assert page["parameters"] == figures_of(larger, 1, 512)["parameters"]


@pytest.mark.slow
def test_numbers_that_are_no_inputs_tell_structures_apart():
    """The layers of Gemma 3n have places, so that the order of its layers is no input."""
    programs = Programs()
    for name in ("gemma-3n-e2b", "gemma-3n-e4b"):
        made = af.architecture(name)
        program, inputs = programs.of(made, CALLED)
        page = program.evaluate([*CALLED, *(each.value for each in inputs)])
        assert page["parameters"] == figures_of(made, 1, 512)["parameters"]
        assert not any(each.keys[-1] == "order" for each in inputs)


def test_more_layers_cost_more_of_the_same(programs):
    made = af.architecture("gemma-2-2b")
    program, inputs = programs.of(made, CALLED)
    deeper = [each.value * (2 if each.keys[-1] == "order" else 1) for each in inputs]
    page = program.evaluate([*CALLED, *deeper])
    ours = figures_of(change(made, "decoder.order", "(local global)*26"), 1, 512)
    assert page["parameters"]["total"] == ours["parameters"]["total"]
    assert page["state"]["memories"] == ours["state"]["memories"]


def test_a_program_says_the_same_in_the_same_bytes():
    made = af.architecture("gpt2")
    (first, inputs), (second, _) = (program_of(made, CALLED) for _ in range(2))
    assert first.json == second.json
    assert inputs == inputs_of(made)


def test_whole_numbers_that_no_double_holds_are_written_as_text():
    program = FigureProgram((("int", 2**53 - 1), ("int", 2**53), ("float", 0.5)), ())
    assert program.data()["nodes"] == [("int", 2**53 - 1), ("int", "9007199254740992"), ("float", 0.5)]


def test_what_has_no_value_has_none_and_all_that_is_made_of_it():
    nodes = (("take", 0), ("float", 10.0), ("**", 1, 0), ("round", 2), ("//", 0, 3), ("int", 0), ("%", 0, 5), ("+", 0, 6))
    program = FigureProgram(nodes, (ProgramPiece(((7, True),), {}),))
    assert program.values([400]) == [400, 10.0, None, None, None, 0, None, None]
    assert program.evaluate([400]) is None


def test_a_number_that_leaves_the_arithmetic_holds_for_its_value_alone():
    trace = NumberTrace()
    heads, width = trace.input(0, 12), trace.input(1, 768)
    assert list(range(heads)) == list(range(12))
    assert [(trace.nodes[at][0], holds) for at, holds in trace.guards.items()] == [("==", True)]
    assert width % heads == 0
    assert len(trace.guards) == 2
    assert not heads > width
    assert list(trace.guards.values())[-1] is False


@settings(max_examples=20)
@given(st.integers(1, 500), st.integers(1, 500), st.integers(-50, 500))
def test_traced_arithmetic_is_pythons(x, y, z):
    def computed(x, y, z):
        q, r = divmod(z, y)
        return [x + y * z - 3, q, r, -z // 7, max(x, y, 5) - min([y, z]), prod((x, y, 2)), sum((x, y)), ceil(x / y),
                floor(z / y), round(x / y), (x - 1).bit_length(), 2**y, 1 << x, abs(z), x / y]  # fmt: skip

    trace = NumberTrace()
    with tracing():
        traced = computed(*(trace.input(i, value) for i, value in enumerate((x, y, z))))
        nodes = [trace.of(each) for each in traced]
    program = FigureProgram(tuple(trace.nodes), ())
    assert [program.values([x, y, z])[at] for at in nodes] == computed(x, y, z)
    other = (y + 1, x, z + 3)
    assert [program.values(other)[at] for at in nodes] == computed(*other)


@pytest.mark.parametrize("mask", [Causal(), Window(size=7), Window(size=5, after=3), Causal() & Chunk(size=6)])
@pytest.mark.parametrize("call", ["first", "next"])
def test_the_pairs_of_a_mask_are_an_expression_of_its_sizes(mask, call):
    trace = NumberTrace()
    length = trace.input(0, 64)
    past = 0 if call == "first" else length - 1
    with tracing():
        found = masks.count_pairs(mask, past, past + (length if call == "first" else 1), 0)
    values = lambda keys: FigureProgram(tuple(trace.nodes), ()).values([keys])[trace.of(found)]  # noqa: E731
    for keys in (1, 2, 5, 6, 7, 8, 63, 64, 1000, 100_003):
        assert values(keys) == count_pairs(mask, 0 if call == "first" else keys - 1, keys, 0)
    assert not trace.guards


def test_sizes_of_a_mask_without_an_expression_may_not_move():
    trace = NumberTrace()
    with tracing():
        plain = Causal() & (BlockWindow(block=4, count=3) | VerticalStride(block=4, stride=2))
        traced = substituted(plain, lambda at, value: trace.input(at[1], value) if at[-1] == "stride" else value)
        assert masks.count_pairs(traced, 0, 40, 0) == count_pairs(plain, 0, 40, 0)
    tied = [trace.nodes[at] for at, holds in trace.guards.items() if holds and trace.nodes[at][0] == "=="]
    assert {trace.nodes[left][0] for _, left, _ in tied} == {"take"}


def test_a_count_that_no_polynomial_gives_has_none():
    assert pair_formula(lambda keys, sizes: keys.bit_length() ** 3, (), "first") is None


def test_places_are_paths_of_changes():
    made = af.architecture("t5-small")
    program, inputs = program_of(made, CALLED)
    found = places(made, program, inputs)
    assert [place["at"][0] for place in found] == list(range(len(CALL), len(CALL) + len(inputs)))
    for place in found:
        if isinstance(place["now"], int) and not place["fixed"]:
            for path in place["paths"]:
                try:
                    assert change(made, path, place["now"]) == made, path
                except DescriptionError as error:
                    raise AssertionError(path) from error
    assert {place["paths"][0] for place in found if place["fixed"]} == {"embedding.types", "head.front"}


def test_the_committed_result_has_no_wrong_figure():
    record = json.loads((RESULTS / "atlas.json").read_text())
    assert record["equal"] == 2000
    assert record["wrong"] == []
    assert record["entries"] == len(list(af.catalogue.listing()))


def test_what_the_benchmark_gives_node_is_what_the_site_has():
    ((name, sheet, program),) = sheets(["gpt2"])
    assert name == "gpt2"
    assert sheet["call"]["length"] == 1024
    assert program["format"] == 1
