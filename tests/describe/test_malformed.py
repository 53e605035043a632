"""Text and values that are no description are refused at once and in words: deep, long, huge, or of another kind."""

from __future__ import annotations

import pytest
from zoo import ZOO

from anyformer.catalogue import architecture
from anyformer.describe import DescriptionError, change, from_json, from_toml, numbers, parse_assignment, read_data, to_json
from anyformer.dims import LARGEST, LONGEST
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts.layers.order import MOST_LAYERS, parse_order
from anyformer.training import Run

LLAMA = ZOO["llama"]


@pytest.mark.parametrize(
    "text", ["5", "[]", "null", '"gpt2"', "", "[" * 30_000, '{"a":' * 30_000, '{"width": ' + "9" * 5000 + "}"]
)
def test_json_that_is_no_description(text):
    with pytest.raises(DescriptionError, match=r"(?s)^x\.json:\n  .{4,300}\Z"):
        from_json(Architecture, text, "x.json")


@pytest.mark.parametrize(
    "text", ["5", "a", "a = " + "[" * 30_000, "a" + ".a" * 30_000 + " = 1", "a = " + "9" * 5000, "width = []"]
)
def test_toml_that_is_no_description(text):
    with pytest.raises(DescriptionError, match=r"(?s)^x\.toml:\n  .{4,900}\Z"):
        from_toml(Architecture, text, "x.toml")


def test_a_name_given_twice_says_in_which_file(tmp_path):
    (tmp_path / "x.json").write_text('{"width": 1, "width": 2}')
    with pytest.raises(DescriptionError, match=r"x\.json:\n.*'width' is given twice"):
        read_data(tmp_path / "x.json")


@pytest.mark.parametrize("right", ["9" * 5000, "[" * 5000])
def test_an_assignment_of_what_is_no_value(right):
    with pytest.raises(DescriptionError, match=r"^width: .{0,60} is no value: too many digits, or nested too deeply"):
        parse_assignment(f"width={right}")


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("layer*2*1000000", "more than 10,000 layers"),
        ("layer*9999*9", "more than 10,000 layers"),
        ("(layer*100)*100 layer", "has 10,001 layers"),
        ("layer*" + "9" * 5000, "more than 10,000 layers"),
        ("layer*00", "at least 1"),
        ("(" * 3000, "leaves a parenthesis open"),
        ("layer*٣", "cannot be read"),
        ("?" * 9000, "cannot be read"),
    ],
)
def test_an_order_is_counted_before_it_is_written_out(order, words):
    with pytest.raises(ValueError, match=f"^order .{{0,80}}{words}"):
        parse_order(order)
    with pytest.raises(DescriptionError, match=words):
        change(LLAMA, "decoder.order", order)


def test_the_deepest_order_is_one():
    assert len(parse_order(f"layer*{MOST_LAYERS}")) == MOST_LAYERS


def test_sizes_are_bounded_at_their_path():
    with pytest.raises(
        DescriptionError, match=rf"decoder\.layer\.feedforward\.width: is {2**31}, and may be at most {LARGEST}"
    ):
        change(LLAMA, "decoder.layer.feedforward.width", 2**31)
    assert change(LLAMA, "decoder.layer.feedforward.width", LARGEST).decoder is not None
    for beyond in (10**30, -(10**30)):
        with pytest.raises(DescriptionError, match="embedding: vocab is beyond what a description holds"):
            change(LLAMA, "embedding.vocab", beyond)


def test_a_run_is_bounded_too():
    with pytest.raises(
        DescriptionError, match="steps is beyond what a description holds: whole numbers go to 9223372036854775807"
    ):
        Run.parse({"architecture": LLAMA.plain(), "data": {"paths": ["x"]}, "steps": 2**64})


def test_every_number_is_found_at_the_path_of_a_person():
    found = dict(numbers(LLAMA))
    assert found["width"] == LLAMA.width
    assert found["decoder.layer.attention.heads"] == 4
    assert found["embedding.vocab"] == LLAMA.embedding.vocab


def test_what_no_tensor_can_hold_is_not_built():
    huge = LLAMA.but(embedding=LLAMA.embedding.but(vocab=LARGEST))
    huge = change(change(huge, "width", 2**30), "decoder.layer.feedforward.width", LARGEST)
    with pytest.raises(DescriptionError, match=r"parameters cannot be built, 9.01e\+15 at most; the largest is .*weight"):
        Transformer(huge)


@pytest.mark.parametrize(
    "given", [{"length": 0}, {"length": LONGEST + 1}, {"batch": 2**31}, {"past": -1}, {"length": 1.5}, {"source": True}]
)
def test_lengths_and_batches_are_bounded(given):
    (name,) = given
    with pytest.raises(DescriptionError.__base__, match=f"^{name} should be a whole number from [01] to"):
        Shape(**given)


def test_a_value_too_long_to_write_is_not_written():
    with pytest.raises(DescriptionError, match="a number of thousands of digits"):
        Architecture.parse({"width": {"a": 10**5000}})


@pytest.mark.parametrize(
    "what", ["x" * 5000, "a\x00b", "x" * 5000 + ".toml", {"architecture": 5}, {"architecture": "gpt2", "set": 5}]
)
def test_a_name_that_no_file_can_have(what):
    from anyformer.resolving import architecture as resolved

    with pytest.raises(DescriptionError):
        resolved(what)


def test_files_that_name_each_other(tmp_path):
    from anyformer.resolving import architecture as resolved

    (tmp_path / "a.json").write_text('{"architecture": "b.json"}')
    (tmp_path / "b.json").write_text('{"architecture": "a.json"}')
    with pytest.raises(DescriptionError, match=r"in a circle: .*a\.json, .*b\.json"):
        resolved(tmp_path / "a.json")


def test_a_deep_model_is_valid_and_goes_through_text():
    deep = change(architecture("llama-12m"), "decoder.order", f"layer*{MOST_LAYERS}")
    assert from_json(Architecture, to_json(deep)) == deep
