"""Descriptions as values: frozen, strict, both ways through text, changed and compared by path, errors at the user's path."""

from __future__ import annotations

import copy
import json
import pickle
import re

import pytest

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.describe import (
    DescriptionError,
    Named,
    Notice,
    Value,
    change,
    change_all,
    diff,
    from_json,
    from_toml,
    get,
    parse_assignment,
    schema,
    to_json,
    to_toml,
)
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Causal,
    FeedForward,
    LayerNorm,
    Projection,
    QKNorm,
    RMSNorm,
    Rotary,
    Window,
)

TINY = llama(width=32, depth=4, heads=4, kv_heads=2, ffn=48, vocab=100)


def test_values_are_frozen_all_the_way_down():
    with pytest.raises(ValueError, match="frozen"):
        TINY.width = 3
    with pytest.raises(AttributeError):
        TINY.decoder.variants._items = {}
    with pytest.raises(TypeError):
        TINY.decoder.variants["layer"] = None
    assert Attention(heads=2, project=Projection(bias=["key"])).project.bias == ("key",), "a list is taken as a tuple"


def test_equal_values_hash_and_digest_alike():
    again = llama(width=32, depth=4, heads=4, kv_heads=2, ffn=48, vocab=100)
    assert again == TINY
    assert hash(again) == hash(TINY)
    assert again.digest == TINY.digest
    assert change(TINY, "width", 40).digest != TINY.digest


@pytest.mark.parametrize("bad", ["128", 128.0, True, None])
def test_no_coercion(bad):
    with pytest.raises(DescriptionError, match="width"):
        FeedForward(width=bad)


def test_no_copy_skips_validation():
    for make in (
        lambda: TINY.model_copy(update={"width": -1}),
        lambda: TINY.but(width=-1),
        lambda: FeedForward.model_construct(width=-1),
    ):
        with pytest.raises(DescriptionError):
            make()
    assert copy.deepcopy(TINY) == TINY
    assert pickle.loads(pickle.dumps(TINY)) == TINY


def test_text_is_byte_stable_and_absent_parts_stay_absent():
    text = to_toml(TINY)
    assert to_toml(from_toml(Architecture, text)) == text
    assert "softcap" not in text
    assert from_json(Architecture, to_json(TINY)) == TINY


def test_names_keep_their_order_in_equality():
    assert Named(a=1, b=2) != Named(b=2, a=1)
    assert dict(Named(a=1, b=2)) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("width", 32),
        ("decoder.layer.attention.kv_heads", 2),
        ("decoder.layer.feedforward.width", 48),
        ("decoder.layer.attention.rotary.theta", 10_000.0),
        ("decoder.variants.layer.steps.0.branches.attention.sublayer.heads", 4),
        ("decoder.layer.attention.norm_before.eps", 1e-5),
        ("decoder.layer.attention.qk_norm", None),
    ],
)
def test_paths_may_skip_the_plumbing(path, value):
    assert get(TINY, path) == value


@pytest.mark.parametrize(("left", "right"), [("gpt2", "llama-3-8b"), ("transformer-base", "t5-small"), ("gpt2", "deepseek-v3")])
def test_the_path_of_a_difference_leads_to_it_alone(left, right):
    """A branch and its weights of the values both have a dropout, and the steps of a block have norms of one name."""
    ours, theirs = architecture(left), architecture(right)
    found = diff(ours, theirs)
    paths = [path for path, _, _ in found]
    assert len(paths) == len(set(paths))
    for path, old, new in found:
        for made, value in ((ours, old), (theirs, new)):
            if value is not None:
                assert get(made, path) == value, path


def test_change_and_diff_are_inverse():
    changes = {
        "decoder.layer.attention.kv_heads": 4,
        "decoder.layer.attention.qk_norm": QKNorm(norm=RMSNorm(eps=1e-6)),
        "decoder.layer.attention.mask": Causal() & Window(size=8),
        "decoder.order": "layer*2",
    }
    other = change_all(TINY, changes)
    found = diff(TINY, other)
    assert {path for path, _, _ in found} == set(changes)
    assert change_all(TINY, {path: right for path, _, right in found}) == other
    assert change_all(other, {path: left for path, left, _ in found}) == TINY


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("decoder.layer.attention.kv_head", 2, ["kv_head", "did you mean 'kv_heads'"]),
        ("decoder.lair.attention.heads", 2, ["'lair'", "decoder", "did you mean 'layer'"]),
        ("decoder.layer.attention.kv_heads", 3, ["decoder.layer.attention", "kv_heads = 3", "heads = 4"]),
        ("decoder.layer.attention.heads", 0, ["decoder.layer.attention.heads", "greater than or equal to 1", "got 0"]),
        ("decoder.layer.attention.heads", 3, ["decoder.layer.attention", "kv_heads"]),
        ("decoder.layer.attention.rotary.fraction", 0.4, ["decoder.layer.attention", "rotary", "3"]),
        ("decoder.layer.attention.mask", {"kind": "window", "size": 0}, ["decoder.layer.attention.mask.size", "got 0"]),
        ("decoder.layer.attention.mask", {"kind": "windw", "size": 3}, ["'windw'", "did you mean 'window'"]),
        ("decoder.layer.attention.mask", {"size": 3}, ["no kind"]),
        ("decoder.layer.feedforward.activation", "sillu", ["decoder.layer.feedforward.activation", "did you mean 'silu'"]),
        ("decoder.layer.feedforward.bias", ["up", "up"], ["names a projection twice"]),
        ("decoder.order", "layer*2 global", ["decoder", "'global'", "known: layer"]),
        ("decoder.order", "(layer*2", ["parenthesis open"]),
        ("decoder.order", "layer*0", ["'*0'"]),
        ("decoder.order", "Layer", ["cannot be read at 'Layer'"]),
        ("width", 33, ["decoder.layer.attention", "heads = 4", "width = 33"]),
        ("head", {"tyed": True}, ["head", "did you mean 'tied'"]),
        ("embedding.scale", float("nan"), ["embedding.scale", "finite"]),
    ],
)
def test_errors_name_the_users_path_value_and_remedy(path, value, words):
    with pytest.raises(DescriptionError) as caught:
        change(TINY, path, value)
    for word in words:
        assert word in str(caught.value)
    for plumbing in ("variants", "steps", "sublayer", "branches", "rms_norm", "pydantic"):
        assert plumbing not in str(caught.value).split("(known")[0]


def test_every_problem_is_reported_at_once():
    data = TINY.plain()
    data["width"], data["embedding"]["vocab"] = "32", 0
    with pytest.raises(DescriptionError) as caught:
        Architecture.parse(data)
    assert [problem.path for problem in caught.value.problems] == ["width", "embedding.vocab"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=3", ("a.b", 3)),
        ("a=1e-3", ("a", 1e-3)),
        ("a=true", ("a", True)),
        ("a=relu", ("a", "relu")),
        ('a="3"', ("a", "3")),
        ("a=none", ("a", None)),
        ('a={kind="window", size=4}', ("a", {"kind": "window", "size": 4})),
        ("a=layer*3 b", ("a", "layer*3 b")),
    ],
)
def test_assignments_read_toml_values(text, expected):
    assert parse_assignment(text) == expected


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("{kind=mamba2}", '{kind="mamba2"}'),
        ("{kind = window, size = 8k, m={kind='all', on=true}}", '{kind = "window", size = 8k, m={kind="all", on=true}}'),
        ("{a = gemma-2.b, b='c, d}'}", '{a = "gemma-2.b", b="c, d}"}'),
    ],
)
def test_words_in_a_table_without_quotes_are_refused_with_the_text_that_has_them(given, meant):
    with pytest.raises(DescriptionError, match=re.escape(f"a.b: words inside a table need quotes, as in 'a.b={meant}'; got ")):
        parse_assignment(f"a.b={given}")
    assert isinstance(parse_assignment(f"a.b={meant}")[1], dict)


@pytest.mark.parametrize("text", ["{", "{x}", "{{ x = y }}", "[MASK]", "{a=none}", "{a=b"])
def test_words_in_brackets_that_are_no_table_stay_words(text):
    assert parse_assignment(f"a={text}") == ("a", text)


@pytest.mark.parametrize("text", ["a", "=3", ""])
def test_assignments_need_both_sides(text):
    with pytest.raises(DescriptionError, match="PATH=VALUE"):
        parse_assignment(text)


def test_a_field_given_twice_is_refused():
    with pytest.raises(DescriptionError, match="twice"):
        from_json(Rotary, '{"theta": 1.0, "theta": 2.0}')
    with pytest.raises(DescriptionError, match="not valid TOML"):
        from_toml(Rotary, "theta = 1.0\ntheta = 2.0")


def test_the_schema_describes_kinds_fields_and_choices():
    table = json.loads(schema(Architecture))
    assert table["$defs"]["FeedForward"]["properties"]["activation"]["enum"][0] == "relu"
    assert "F," in table["$defs"]["FeedForward"]["properties"]["width"]["description"]


def test_another_kind_keeps_the_fields_that_it_has_and_names_what_it_drops():
    model = llama(width=32, depth=1, heads=4, kv_heads=2, ffn=48, vocab=64)
    norm = get(model, "decoder.final_norm")
    changed = change(model, "decoder.final_norm.kind", "layer_norm")
    assert get(changed, "decoder.final_norm") == LayerNorm(eps=norm.eps, cast=norm.cast, bias=norm.bias)
    there = "decoder.layer.attention"
    plain = change(model, f"{there}.rotary", None)
    features = {f"{there}.feature_map": {"kind": "elu_plus_one"}, f"{there}.kind": "linear_attention"}
    linear = change_all(plain, features)
    assert (get(linear, f"{there}.kv_heads"), get(linear, f"{there}.feature_map.kind")) == (2, "elu_plus_one")
    with pytest.warns(Notice, match="kind=linear_attention leaves out what linear_attention has no field for: value_scale"):
        assert change_all(change(plain, f"{there}.value_scale", 2.0), features) == linear
    with pytest.raises(DescriptionError, match="attention: has no field 'value_scale'"):
        change_all(plain, {**features, f"{there}.value_scale": 2.0})


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schedule", {"warmup": 3}, ": says no kind, got {'warmup': 3} (dict): add kind = one of 'cosine', 'linear', "),
        ("tuning.adapter", {"rank": 8}, ": says no kind, got {'rank': 8} (dict): add kind = one of 'dora', 'lora', "),
        ("tuning.adapter", "lora", ": should be a table with kind = one of 'dora', 'lora', 'prompt'; got 'lora' (str)"),
        ("tuning.adapter.rank", 8, ": tuning.adapter is absent: set it as a whole, as in tuning.adapter={kind=...,rank=...}"),
        ("average.rate", 1, ": average is absent: set it as a whole first"),
        ("optimiser", 3, ": should be a table with kind = one of 'adafactor', "),
        ("tuning", 3, ": should be a table, got 3 (int)"),
        ("decoder.layer.attention.mask", {}, ": says no kind, got {} (dict): add kind = one of 'all_of', 'any_of', "),
        ("loggers", [{}], ": says no kind, got {} (dict): add kind = one of 'mlflow', "),
    ],
)
def test_what_lacks_its_kind_is_told_where_it_stands_what_it_is_and_which_kinds_there_are(path, value, said):
    from anyformer.data import Text
    from anyformer.training import Run

    run = Run(minutes=1.0, length=8, data=Text(paths=("x",)), architecture=change(TINY, "embedding.vocab", 4096))
    with pytest.raises(DescriptionError) as caught:
        change_all(run, {path: value})
    assert f"{path}{said}" in str(caught.value)


def test_a_base_class_between_takes_any_of_its_own_kinds_and_no_other():
    from anyformer.data import Chats
    from anyformer.data.kinds.chat_records import ChatRecords

    assert isinstance(ChatRecords.parse({"kind": "chats", "paths": ["x"]}), Chats)
    with pytest.raises(
        DescriptionError,
        match=r"says no kind, got .*: add kind = one of 'chats', 'completions', 'judgements', 'preferences', 'prompts'$",
    ):
        ChatRecords.parse({"paths": ["x"]})
    with pytest.raises(
        DescriptionError, match=r"'text' is no kind \(known: chats, completions, judgements, preferences, prompts\)"
    ):
        ChatRecords.parse({"kind": "text", "paths": ["x"]})


@pytest.mark.filterwarnings("ignore:Field name")
def test_a_field_that_a_base_class_computes_is_refused():
    """Pydantic warns of it alone, and the base class then reads the field's value in the place of its own."""

    class Base(Value):
        @property
        def places(self) -> tuple[str, ...]:
            return ()

    with pytest.raises(TypeError, match=r"Ranked has a field 'places', which .*Base computes: give the field another name"):

        class Ranked(Base):
            places: int = 10
