"""Changes by path: a name that is not there yet copies another, a whole part stands wherever a part does."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.describe import DescriptionError, Notice, change, change_all, get, parse_assignment
from anyformer.describe.changing import NotedChange, changed
from anyformer.exploring.tree import tree
from anyformer.model import Architecture
from anyformer.parts import Mamba, Window
from anyformer.studies.study import Study

TINY = llama(width=32, depth=8, heads=4, kv_heads=2, ffn=48, vocab=100)
TURNS = {"decoder.local": "layer", "decoder.order": "(local*3 layer)*2"}
WINDOW = {"kind": "window", "size": 8}
MAMBA = {"kind": "mamba", "channels": 64, "state_width": 4, "step_rank": 2}


def test_a_new_name_is_a_copy_of_what_it_names():
    made = change_all(TINY, TURNS)
    assert made.decoder.layers == ("local", "local", "local", "layer") * 2
    assert get(made, "decoder.local") == get(made, "decoder.layer") == get(TINY, "decoder.layer")
    windowed = change_all(TINY, {**TURNS, "decoder.local.attention.mask": WINDOW, "decoder.local.attention.heads": 2})
    assert get(windowed, "decoder.local.attention.mask") == Window(size=8)
    assert (get(windowed, "decoder.local.attention.heads"), get(windowed, "decoder.layer.attention.heads")) == (2, 4)
    assert get(windowed, "decoder.layer") == get(TINY, "decoder.layer")
    assert Architecture.parse(windowed.plain()) == windowed


def test_the_order_of_changes_matters_to_a_copy_alone():
    heads = "decoder.layer.attention.heads"
    before, after = change_all(TINY, {heads: 8, **TURNS}), change_all(TINY, {**TURNS, heads: 8})
    assert get(before, "decoder.local.attention.heads") == get(before, heads) == get(after, heads) == 8
    assert get(after, "decoder.local.attention.heads") == 4
    inside = {"decoder.local.attention.mask": WINDOW, "decoder.local.attention.mask.size": 4}
    made = change_all(TINY, {**TURNS, **inside})
    assert change_all(TINY, dict(reversed([*TURNS.items(), *inside.items()]))) == made, "a whole before what is in it"
    assert get(made, "decoder.local.attention.mask.size") == 4


def test_a_copy_is_copied_and_takes_along_that_its_original_was_given_another_kind():
    first = {"decoder.layer.attention": MAMBA, "decoder.a": "layer", "decoder.b": "a", "decoder.b.attention.channels": 32}
    made = change_all(TINY, {**first, "decoder.order": "layer*2 a b"})
    assert [get(made, f"decoder.{name}.attention.channels") for name in ("layer", "a", "b")] == [64, 64, 32]
    rotary = "decoder.layer.attention.rotary"
    kinds = {rotary: None, "decoder.layer.attention.kind": "linear_attention"}
    kinds["decoder.layer.attention.feature_map"] = {"kind": "elu_plus_one"}
    other = {**kinds, **TURNS, "decoder.local.attention.feature_map": {"kind": "identity"}}
    assert get(change_all(TINY, other), "decoder.local.attention.feature_map.kind") == "identity"


def test_a_branch_is_copied_beside_itself():
    made = change_all(TINY, {"decoder.layer.second": "attention", "decoder.layer.second.mask": WINDOW})
    (both, alone) = made.decoder.variants["layer"].steps
    assert (list(both.branches), list(alone.branches)) == (["attention", "second"], ["feedforward"])


def test_the_last_branch_of_a_step_takes_the_step_along():
    bare = {"decoder.mamba.attention": MAMBA, "decoder.mamba.feedforward": None, "decoder.order": "(layer*3 mamba)*2"}
    made = change_all(TINY, {"decoder.mamba": "layer", **bare})
    (step,) = made.decoder.variants["mamba"].steps
    assert list(step.branches) == ["attention"]
    assert isinstance(step.branches["attention"].sublayer, Mamba)
    assert len(made.decoder.variants["layer"].steps) == 2


def test_copies_are_for_every_table_of_names():
    run = {"data": {"paths": ["x"]}, "steps": 2, "architecture": change(TINY, "embedding.vocab", 4096), "length": 8}
    study = Study.parse({"title": "Which?", "base": run, "arms": {"plain": {}, "wide": {"set": ["width=64"]}}, "seeds": [1, 2]})
    assert change(study, "arms.other", "wide").arms["other"] == study.arms["wide"]


def test_a_whole_part_stands_wherever_a_part_does():
    there = "decoder.layer.attention"
    assert get(change(TINY, there, MAMBA), f"{there}.sublayer") == Mamba.parse(MAMBA), "behind the branch, whose norm stays"
    assert get(change(TINY, there, Mamba.parse(MAMBA)), f"{there}.norm_before") == get(TINY, f"{there}.norm_before")
    branch = get(TINY, there).but(dropout=0.5)
    assert get(change(TINY, there, branch), there) == branch
    placed = change(TINY, f"{there}.place", {"kind": "rotary", "theta": 5.0})
    assert get(placed, f"{there}.rotary.theta") == 5.0
    normed = change_all(TINY, {f"{there}.qk_norm": {"kind": "rms_norm"}, f"{there}.qk_norm.norm.eps": 0.5})
    assert get(normed, f"{there}.qk_norm.norm.eps") == 0.5
    late = {"decoder.position": {"kind": "learned_position", "length": 9}, "decoder.position.length": 7}
    assert change_all(TINY, late).decoder.max_length == 7
    half = {f"{there}.mask": {"kind": "window"}, f"{there}.mask.size": 6}
    assert get(change_all(TINY, half), f"{there}.mask") == Window(size=6)
    with pytest.raises(DescriptionError, match=r"decoder\.layer: has no field 'kind'"):
        change(TINY, "decoder.layer", MAMBA)


@pytest.mark.parametrize("name", ["gemma-2-2b", "deepseek-v3", "whisper-tiny", "jamba-v0.1", "vit-base-16"])
def test_every_part_may_be_said_whole_at_its_path(name):
    made = architecture(name)
    parts = [part for part in tree(made) if part.path]
    for part in parts:
        assert change(made, part.path, part.value.plain()) == made, part.path
    assert len(parts) > 8


def test_another_kind_keeps_the_fields_of_both_and_says_what_it_leaves_out():
    there = "decoder.layer.attention"
    llama3 = architecture("llama-3-8b")
    made = changed(llama3, {f"{there}.kind": "mamba2", f"{there}.head_width": 128, f"{there}.state_width": 64})
    assert made.notes == (f"{there}.kind=mamba2 leaves out what mamba2 has no field for: kv_heads, rotary",)
    assert get(made.value, f"{there}.kind") == "mamba2"
    assert get(made.value, f"{there}.heads") == 32
    assert get(made.value, f"{there}.norm_before") == get(llama3, f"{there}.norm_before")
    anew = changed(llama3, {f"{there}.kind": "slstm", f"{there}.rotary": None, f"{there}.kv_heads": None})
    assert anew == NotedChange(changed(llama3, {f"{there}.kind": "slstm"}).value, ())
    with pytest.warns(Notice, match=r"^decoder\.layer\.attention\.kind=slstm leaves out .*: kv_heads, rotary$"):
        change_all(llama3, {f"{there}.kind": "slstm"})


def test_a_field_that_takes_other_values_in_another_kind_is_left_out():
    gpt2, there = architecture("gpt2"), "decoder.layer.attention"
    assert changed(gpt2, {f"{there}.kind": "attention"}) == NotedChange(gpt2, ())
    note = f"{there}.kind=gated_convolution leaves out what gated_convolution has no field for: heads, dropout, bias"
    assert changed(gpt2, {f"{there}.kind": "gated_convolution"}).notes == (note,)
    given = {f"{there}.kind": "gated_convolution", f"{there}.bias": ["output"]}
    made = changed(gpt2, given)
    assert get(made.value, f"{there}.bias") == ("output",)
    assert made.notes == (note.removesuffix(", bias"),)


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["decoder.local=layr"], "nothing is called 'local' in decoder .*; decoder.local=layer adds a copy under that name"),
        (["decoder.layers.local=layer"], "'layers' in decoder; did you mean 'layer'.; decoder.NAME=layer adds a copy"),
        (["decoder.local.attention.heads=2"], "nothing is called 'local' in decoder .*; decoder.local=layer adds a copy"),
        (["decoder.local=layer"], r"variants \['local'\] do not occur in the order 'layer\*8': name them in it, or leave"),
        (["decoder.order=local layer"], "no variant 'local' .*; the change local=layer of this stack adds a copy"),
        (["decoder.Local=layer", "decoder.order=layer Local"], "'Local' cannot be a name: use lower-case letters"),
        (["decoder.layer.attention.head=attention"], "nothing is called 'head' in decoder.layer.attention; did you mean"),
        (
            ["decoder.layer.attention.kind=mamba"],
            r"^decoder\.layer\.attention\.channels: is required\n.*\n.*step_rank: is required$",
        ),
        (["decoder.layer.attention.kind=slstm", "decoder.layer.attention.kv_heads=2"], "attention: has no field 'kv_heads'"),
        (["embeding=layer"], "embeding: nothing is called 'embeding'; did you mean 'embedding'"),
    ],
)
def test_what_cannot_be_copied_says_what_can(sets, said):
    with pytest.raises(DescriptionError, match=said):
        change_all(TINY, dict(map(parse_assignment, sets)))
