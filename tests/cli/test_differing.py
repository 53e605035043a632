"""`anyformer diff`: the answer first, then the details."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from anyformer.catalogue import architecture
from anyformer.cli.differing import SAME, times
from anyformer.costs import cost
from anyformer.costs.priced_stairs import step_figures
from anyformer.plan import Plan


def words(text):
    return " ".join(text.split())


def test_what_multi_query_attention_would_do_to_gpt2_is_the_first_thing_said(call):
    shown = call("diff", "gpt2", "gpt2", "--set", "decoder.layer.attention.kv_heads=1").stdout
    answer, details, _ = shown.split("\n\n")
    assert "attention MHA -> MQA" in words(answer)
    assert "Parameters -10.4%" in words(answer)
    assert "decode state / 12" in words(answer)
    assert "kv heads of attention: 12 -> 1" in details


@pytest.mark.parametrize("pair", [("llama-3-8b", "deepseek-v3"), ("bert-base-uncased", "t5-base")], ids=" ".join)
def test_it_reads_at_80_columns(pair, call):
    lines = call("diff", *pair).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 50


def test_experts_are_said_with_those_that_a_token_passes_and_weights_in_bytes(call):
    answer, *_, costs = call("diff", "mixtral-8x7b", "llama-3-8b").stdout.split("\n\n")
    assert "experts 2 of 8 -> none" in words(answer)
    assert "memory of weights 93.41 GB -> 16.06 GB / 5.82" in words(costs)


def test_equal_architectures(call):
    assert "nothing differs" in call("diff", "gpt2", "gpt2").stdout


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1, SAME), (1.02, "+2.0%"), (0.9, "-10.0%"), (1 / 12, "/ 12"), (83.6, "x 83.6"), (0.0, "gone"), (1.0002, "+0.02%")],
)
def test_ratios_in_words(ratio, said):
    assert times(ratio) == said


def test_three_stand_abreast(call, tmp_path):
    page = call("diff", "llama-3-8b", "qwen3-8b", "gemma-3-4b").stdout
    assert max(map(len, page.splitlines())) <= 80
    assert "layers: 32 -> 36 | 34" in page
    assert "heads of attention: 32 -> same | 8" in page
    heads, first, *_ = page[page.index("Costs of") :].splitlines()[1:]
    assert heads.split() == ["llama-3-8b", "qwen3-8b", "gemma-3-4b"]
    assert words(first) == "parameters 8.03 G 8.191 G 3.88 G"
    alone = {name: call("diff", "llama-3-8b", name, "--json").stdout for name in ("qwen3-8b", "gemma-3-4b")}
    found = json.loads(call("diff", "llama-3-8b", "qwen3-8b", "gemma-3-4b", "--json", "--length", "4k").stdout)
    assert found == {name: json.loads(text) for name, text in alone.items()}
    path = tmp_path / "three.svg"
    changed = ["--set", "decoder.layer.attention.kv_heads=1"]
    assert call("diff", "gpt2", "gpt2", "gpt2", *changed, "--tiny", "--diagram", str(path)).stdout == f"{path}\n"
    assert "gpt2 (OpenAI, 2019), tiny (right)" in re.sub(r"<[^>]*>", "", path.read_text()).replace("\n", " ")


def test_steps_lead_from_the_figures_of_one_to_those_of_the_other(call):
    page = call("diff", "llama-3-8b", "qwen3-8b", "--steps").stdout
    assert max(map(len, page.splitlines())) <= 80
    first, *tables, said, what = page.split("\n\n")
    assert first == "From llama-3-8b to qwen3-8b in 7 steps"
    costs = {
        each["what"]: each["right"] for each in json.loads(call("diff", "llama-3-8b", "qwen3-8b", "--json").stdout)["costs"]
    }
    last = words(" ".join(table.splitlines()[-1].partition("qwen3-8b")[2] for table in tables))
    wanted = ("parameters", "FLOPs of prefill per token", "element-wise per token", "decode state")
    assert last == " ".join(costs[name] for name in wanted)
    assert "5 feedforward width -805.3 M -1.611 G" in words(tables[0])
    assert "5 width of feedforward: 14,336 -> 12,288" in words(said)
    assert "Costs of 1 x 4,096 tokens" in what


def test_steps_as_data_add_up_to_the_unit(call):
    """Every figure of the end is that of the start and what the steps add; three have stairs between neighbours."""
    names = ["gpt2", "mixtral-8x7b", "bert-base-cased"]
    found = json.loads(call("diff", *names, "--steps", "--length", "512", "--batch", "2", "--json").stdout)
    assert [(stairs["from"], stairs["to"]) for stairs in found] == [*pairwise(names)]
    for stairs in found:
        sheet = cost(architecture(stairs["to"]), batch=2, length=512, mode="prefill", plan=Plan(precision="bf16"))
        assert stairs["end"] == step_figures(sheet)
        assert stairs["end"]["flops_per_token"] * 2 * 512 == sheet.flops.total.exact
        assert stairs["end"]["state"] == sheet.state_bytes
        for name, figure in stairs["end"].items():
            assert stairs["start"][name] + sum(step["deltas"][name] for step in stairs["steps"]) == figure
    assert all(step["words"] and step["changes"] for stairs in found for step in stairs["steps"])


def test_steps_of_the_same_twice_and_of_one_that_is_changed(call):
    assert "nothing differs" in call("diff", "gpt2", "gpt2", "--steps").stdout
    page = call("diff", "gpt2", "gpt2", "--set", "decoder.layer.attention.kv_heads=1", "--steps").stdout
    assert "From gpt2 to gpt2, changed in 1 step\n" in page


def test_steps_are_not_drawn(call):
    refused = call("diff", "gpt2", "llama-3-8b", "--steps", "--diagram", "both.svg")
    assert refused.returncode == 2
    assert "--steps prints a table" in words(refused.stderr)
