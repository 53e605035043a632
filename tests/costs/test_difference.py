"""What differs between two architectures: said once, in words, each part beside the one it replaces."""

from __future__ import annotations

import json

import pytest

import anyformer as af
from anyformer.catalogue import architecture
from anyformer.cli import main
from anyformer.costs import cost
from anyformer.costs.difference import difference
from anyformer.describe import change_all, to_toml
from anyformer.parts import RMSNorm
from anyformer.plan import Plan

LLAMA = architecture("llama-3-8b")


def said(changes):
    return {change.what: (change.left, change.right) for change in changes}


def test_equal_architectures_do_not_differ():
    found = difference(LLAMA, LLAMA)
    assert not found.summary
    assert not found.details
    assert all(change.ratio == 1 for change in found.costs)


def test_python_has_the_same_for_names_left_before_right():
    assert af.difference("gpt2", "llama-3-8b", length=1000) == difference(architecture("gpt2"), LLAMA, length=1000)


def test_what_initialisation_draws_with_is_said_last():
    *others, last = difference(architecture("llama-2-7b"), architecture("mistral-7b-v0.1")).details
    assert last.what == "residual scale of initialisation"
    assert [each.what for each in others] == ["kv heads of attention", "mask of attention", "width of feedforward"]


def test_one_change_is_one_line_and_its_price():
    found = difference(LLAMA, change_all(LLAMA, {"decoder.layer.attention.kv_heads": 32}), length=1000)
    assert said(found.details) == {"kv heads of attention": ("8", "32")}
    assert said(found.summary) == {"attention": ("GQA", "MHA")}
    ratios = {change.what: change.ratio for change in found.costs}
    assert ratios["decode state of the last token"] == pytest.approx(4, rel=1e-3), "but for the book of positions"
    grown = 32 * 2 * (32 - 8) * 128 * 4096 / cost(LLAMA).params.total
    assert ratios["parameters"] == pytest.approx(1 + grown)


def test_what_follows_from_other_values_is_compared_written_out():
    """GPT-2 gives no number of key heads, and has as many as heads."""
    gpt2 = architecture("gpt2")
    found = difference(gpt2, change_all(gpt2, {"decoder.layer.attention.kv_heads": 1}))
    assert said(found.details) == {"kv heads of attention": ("12", "1")}
    assert not difference(gpt2, change_all(gpt2, {"decoder.layer.attention.kv_heads": 12})).details


def test_places_are_named_once():
    (dropout,) = (each for each in difference(architecture("gpt2"), LLAMA).details if each.what.startswith("dropout"))
    assert dropout.what == "dropout of attention, feedforward"


def test_what_changes_alike_in_many_places_is_said_once():
    norm = RMSNorm(eps=1e-3)
    paths = ["final_norm", "layer.attention.norm_before", "layer.feedforward.norm_before"]
    found = difference(LLAMA, change_all(LLAMA, {f"decoder.{path}": norm for path in paths}))
    assert said(found.details) == {"eps of final norm, attention norm before, feedforward norm before": ("1e-05", "0.001")}


def test_a_new_variant_is_held_against_the_likest_block():
    details = said(difference(LLAMA, architecture("gemma-3-4b")).details)
    assert details["mask of local attention"] == ("causal", "window(size=1024)")
    assert details["theta of global attention rotary"] == ("500,000", "1,000,000")
    assert details["activation of feedforward"] == ("silu", "gelu_tanh"), "what both variants share is said without them"
    back = said(difference(architecture("gemma-3-4b"), LLAMA).details)
    assert back["mask of local attention"] == ("window(size=1024)", "causal"), "a variant that is gone is still compared"


def test_parts_of_other_kinds_stand_side_by_side():
    details = said(difference(architecture("mixtral-8x7b"), architecture("deepseek-v3")).details)
    assert details["latent attention"][0] == "absent"
    assert details["attention"][1] == "absent"
    assert details["feedforward of dense"] == ("absent", "feedforward(width=18432)")
    assert details["shared of routed experts"][0] == "absent"
    assert difference(architecture("t5-base"), LLAMA).details[0].what


def test_a_decoder_alone_is_held_against_an_encoder_alone():
    found = difference(architecture("gpt2"), architecture("bert-base-cased"))
    details = said(found.details)
    assert details["stack"] == ("decoder", "encoder")
    assert details["mask of attention"] == said(found.summary)["mask"] == ("causal", "bidirectional")
    assert details["activation of feedforward"] == ("gelu_tanh", "gelu")
    assert "heads of attention" not in details, "12 in both"


def test_masks_that_cost_the_same_are_told_apart():
    """Of one token both see as much; a window is not another view of later tokens, and has a column of its own."""
    gpt2 = architecture("gpt2")
    found = difference(gpt2, change_all(gpt2, {"decoder.layer.attention.mask": {"kind": "bidirectional"}}), length=1)
    assert all(change.ratio == 1 for change in found.costs)
    assert said(found.summary) == said(found.summary[-1:]) == {"mask": ("causal", "bidirectional")}
    assert "mask" not in said(difference(LLAMA, architecture("mistral-7b-v0.1")).summary)
    assert said(difference(LLAMA, architecture("t5-base")).summary)["mask"] == ("causal", "bidirectional + causal")
    assert "mask" not in said(difference(LLAMA, architecture("mamba2-780m")).summary), "which has none"


def test_elementwise_work_is_told_where_products_stay():
    """A norm that subtracts no mean, and the same products."""
    gpt2 = architecture("gpt2")
    norms = [f"decoder.layer.{name}.norm_before" for name in ("attention", "feedforward")]
    made = change_all(gpt2, dict.fromkeys(norms, RMSNorm()))
    costs = {change.what: change for change in difference(gpt2, made, length=100).costs}
    assert costs["FLOPs of prefill"].ratio == 1
    work = [sum(each.exact for each in cost(one, length=100, mode="prefill").elementwise.values()) for one in (gpt2, made)]
    assert costs["element-wise per token"].ratio == (work[1] // 100) / (work[0] // 100) < 1


def test_nothing_is_said_by_an_empty_word():
    found = difference(LLAMA, architecture("mamba2-780m"))
    assert said(found.summary)["position"] == ("RoPE", "none")
    assert all(change.left and change.right for change in (*found.summary, *found.details))


def test_costs_are_those_of_the_cost_sheet():
    found = difference(LLAMA, LLAMA, batch=3, length=100)
    sheet = cost(LLAMA, batch=3, length=100, mode="prefill", plan=Plan(precision="bf16"))
    state = next(change for change in found.costs if change.what == "decode state")
    assert state.left == f"{sheet.state_bytes / 1e6:.4g} MB"


def test_the_command_prints_tables_or_json(tmp_path, monkeypatch, capsys):
    file = tmp_path / "wide.toml"
    file.write_text(to_toml(change_all(LLAMA, {"decoder.layer.feedforward.width": 20000})))
    for more in ([], ["--json"]):
        monkeypatch.setattr("sys.argv", ["anyformer", "diff", "llama-3-8b", str(file), *more])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    tables, _, data = capsys.readouterr().out.partition("{")
    assert "width of feedforward" in tables
    assert "20,000" in tables
    assert json.loads("{" + data)["details"][0]["right"] == "20,000"
