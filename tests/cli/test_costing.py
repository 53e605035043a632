"""`anyformer cost` as a user meets it."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from anyformer.cli.amounts import metric, tokens
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError, change_all, parse_assignment, to_toml


def call(*arguments):
    result = CliRunner().invoke(app, ["cost", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def sections(output):
    """{title: {row: [figures]}} of a page."""
    found, rows = {}, {}
    for line in output.splitlines():
        words = re.split(r"\s{2,}", line.strip())
        if line.startswith("  "):
            rows[words[0]] = words[1:]
        elif line.strip():
            rows = found.setdefault(words[0], {})
    return found


def test_one_page_answers_whether_a_13b_trains_and_what_its_cache_takes():
    page = sections(call("llama-2-13b", "--length", "8k", "--batch", "64", "--hardware", "a100", "--checkpointing", "full"))
    assert page["Parameters"]["total"] == ["13,015,864,320"]
    training = page["Memory of training at its peak (the forward pass)"]
    assert training["weights"] == ["52.06 GB"]
    assert training["optimiser state"] == ["104.1 GB"]
    assert int(training["accelerators that hold it"][0]) > 3
    # 2 x 40 layers x 5,120 features x 2 bytes
    assert page["Decode state in bf16"]["all layers"][0] == "819,200 B"
    assert page["Decode state in bf16"]["all layers"][2] == "429.5 GB"
    assert page["Memory of inference"]["weights"][:2] == ["52.06 GB", "26.03 GB"]
    assert page["Time on one A100 SXM 80 GB"]["tokens per second"][0].replace(",", "").isdigit()


def test_peaks_in_different_passes_stand_in_one_table():
    page = sections(call("gpt2", "mixtral-8x7b", "--mode", "train"))
    (training,) = (rows for title, rows in page.items() if title.startswith("Memory of training"))
    assert len({*training["reached in"]}) == 2
    assert len(training["together, the peak of a step"]) == 3, "two figures and their ratio"


def test_checkpointing_trades_activations_for_time():
    memory, times = {}, {}
    for how in ("none", "selective", "full"):
        page = sections(call("llama-3-8b", "--mode", "train", "--checkpointing", how))
        (training,) = (rows for title, rows in page.items() if title.startswith("Memory of training"))
        number, unit = training["saved for the backward pass"][0].split()
        memory[how] = float(number) * {"GB": 1e9, "MB": 1e6}[unit]
        times[how] = int(page["Time on one H100 SXM 80 GB"]["tokens per second"][0].replace(",", ""))
    assert memory["none"] > memory["selective"] > memory["full"]
    assert times["none"] > times["selective"] > times["full"]


def test_a_layout_on_many_is_part_of_the_page():
    page = sections(call("llama-2-13b", "--length", "8k", "--batch", "64", "--gpus", "8"))
    layout = page["Training on 8 x H100 SXM 80 GB"]
    assert layout["fits"] == ["yes"]
    assert float(layout["memory of the fullest rank"][0].split()[0]) < 80
    assert int(layout["tokens per second"][0].replace(",", "")) > 8_000
    (found,) = json.loads(call("llama-3.1-405b", "--gpus", "8", "--json"))
    assert not found["training_on"]["fits"]
    assert sections(call("llama-3.1-405b", "--gpus", "8"))["Training on 8 x H100 SXM 80 GB"]["fits"] == ["no"]


def test_one_mode_says_where_the_time_goes():
    output = call("llama-3-8b", "--mode", "decode", "--batch", "8", "--hardware", "a100")
    assert "batch 8 x 4,096 tokens, bf16, on A100 SXM 80 GB\ncounted on: 312 TFLOP/s" in output
    page = sections(output)
    # 15.01 GB of weights but the table, and 4.3 GB of cache, at 85 % of 2,039 GB/s
    number, unit = page["Time on one A100 SXM 80 GB"]["time"][0].split()
    assert unit == "ms"
    assert 11 < float(number) < 12
    assert "decoder feedforward products" in page["Where the time goes: decoding step"]
    assert not [title for title in page if title.startswith("Memory of training")]
    # What was asked comes first.
    assert next(iter([title for title in page if title.startswith(("Time", "Decode", "Param"))])).startswith("Time on one")
    assert output.index("Decode state in bf16") < output.index("Memory of inference") < output.index("Parameters")


def test_experts_are_priced_whole_active_and_as_read():
    page = sections(call("mixtral-8x7b", "--batch", "8"))
    assert page["Parameters"]["total"] == ["46,702,792,704", "12,879,925,248"]
    assert page["Parameters"]["decoder experts"] == ["45,098,336,256", "11,275,468,800"]
    # 8 (1 - (1 - 2/8)^8) experts of 5.64 GB in 16 bits, and all else but the table
    experts = 8 * (1 - 0.75**8)
    assert page["Read by a decoding step"]["experts, of 8 in a layer"] == [f"{experts:.1f}"]
    read = 2 * (45_097_156_608 * experts / 8 + 46_702_792_704 - 45_097_156_608 - 131_072_000)
    assert page["Read by a decoding step"]["bytes"][0] == f"{read / 1e9:.4g} GB"


def test_several_stand_side_by_side():
    output = call("gpt2", "mixtral-8x7b", "--length", "512")
    page = sections(output)
    assert next(title for title in output.splitlines() if title.startswith("Parameters")).split()[1:] == [
        "gpt2", "mixtral-8x7b", "most", "/", "least",
    ]  # fmt: skip
    assert page["Parameters"]["used by one token"] == ["124,439,808", "12,879,925,248", "gpt2 103.50 x less"]
    assert "Where the time goes" not in output
    assert "mixtral-8x7b: one H100 SXM 80 GB has no room for a training step" in output


def test_a_source_of_its_own_length():
    page = sections(call("t5-small", "--length", "64", "--source-length", "1k", "--batch", "2"))
    state = page["Decode state in bf16"]
    # 2 of keys and values x 512 features x 2 bytes x 6 layers
    assert state["decoder layer cross_attention: grows with the source"] == ["0 B", "12.58 MB", "25.17 MB"]
    assert state["decoder layer attention: grows every token"][0] == "12,288 B"


def test_a_prefix_sees_more_pairs(tmp_path):
    mask = parse_assignment("decoder.layer.attention.mask={kind='any_of', masks=[{kind='causal'}, {kind='prefix'}]}")
    path = tmp_path / "prefixed.toml"
    path.write_text(to_toml(change_all(af.architecture("gpt2"), dict([mask]))))
    with_prefix, without = (
        json.loads(call(str(path), "--mode", "prefill", "--length", "512", "--prefix", p, "--json"))[0]["sheets"][0]
        for p in ("256", "0")
    )
    more = with_prefix["flops"]["total"]["exact"] - without["flops"]["total"]["exact"]
    # 12 layers of scores and mixing, 2 FLOPs for each of 768 features and each pair above the diagonal of the prefix
    assert more == 12 * 2 * 2 * 768 * 256 * 255 // 2
    assert with_prefix["flops"]["total"]["dense"] == without["flops"]["total"]["dense"]


@pytest.mark.parametrize("name", ["perceiver-imagenet", "bert-base-uncased", "vit-base-16"])
def test_what_decodes_nothing_has_no_decode_state(name):
    page = sections(call(name))
    assert page["FLOPs of matrix products"].keys() >= {"forward", "backward", "training step"}
    assert not {title.split(",")[0] for title in page} & {"Decode state", "Read by a decoding step"}
    with pytest.raises(UserError, match=f"{name} decodes no tokens"):
        call(name, "--mode", "decode")


def test_the_default_length_is_one_that_can_be_run():
    assert "gpt2: batch 1 x 1,024 tokens" in call("gpt2")
    assert "the decoder's position table ends at 1,024, so it cannot be run at 2,048" in call("gpt2", "--length", "2k")


def test_json_has_every_mode_in_numbers():
    (found,) = json.loads(call("t5-small", "--json", "--batch", "2", "--length", "64", "--source-length", "128"))
    train, prefill, decode = found["sheets"]
    assert train["shape"]["source"] == 128
    assert train["memory"]["total"] == sum(size for name, size in train["memory"].items() if name not in ("total", "saved"))
    assert decode["reading"]["state"] > 0
    assert decode["weights"]["fp32"] > decode["weights"]["int4"]
    time = prefill["time"]
    assert time["hardware"] == "h100"
    assert time["tokens_per_second"] == pytest.approx(128 / time["seconds"])
    assert sum(operation["seconds"] for operation in time["operations"]) == pytest.approx(time["seconds"])
    assert {operation["bound"] for operation in time["operations"]} <= {"compute", "memory", "launch"}


def test_explanations_fill_the_numbers_in():
    output = call("gpt2", "--explain", "--length", "512")
    assert "  decoder.layer.attention.query\n    2 x B T x inputs x outputs = 2 x 512 x 768 x 768 " in output
    assert "AdamW's two moments in fp32: 8 x 124,439,808" in output
    assert "notes" not in output
    assert "36,864 a token x 512 tokens" in output
    assert f"FLOP / (989.4 TFLOP/s x {hardware_of('h100').efficiency.matrix})" in output


def test_one_component_is_explained_alone():
    output = call("gpt2", "--explain", "attention", "--length", "512")
    assert "decoder.layer.attention.query.weight = 768 x 768" in output
    assert "feedforward" not in output
    assert "head" not in output.replace("heads", "").replace("key's and a value's head", "")
    assert "36,864 a token x 512 tokens" in output
    with pytest.raises(UserError, match=r"no component is called 'atention'; did you mean 'attention'\?"):
        call("gpt2", "--explain", "atention")


def test_remarks_say_that_they_are_rules_of_thumb():
    output = call("t5-11b", "--mode", "train", "--length", "512")
    assert "t5-11b: remark: feed-forward width: 65,536 is 64.00 times the width of 1,024; the rule of thumb" in output
    assert "remark" not in call("gpt2")


def test_pictures(tmp_path):
    place = tmp_path / "cost.png"
    assert str(place) in call("gpt2", "--plot", str(place))
    assert place.read_bytes()[:4] == b"\x89PNG"


def test_unknown_hardware_is_named():
    with pytest.raises(UserError, match="no hardware is called 'h1000'; did you mean 'h100'"):
        call("gpt2", "--hardware", "h1000")


@pytest.mark.parametrize("wrong", ["8q", "-4", "0", "k", "", "1e"])
def test_a_length_that_is_none_is_refused(wrong):
    result = CliRunner().invoke(app, ["cost", "gpt2", "--length", wrong])
    assert result.exit_code == 2


def test_amounts():
    assert [tokens(text) for text in ("8k", "128K", "4M", "4_000", "1.5k", 7)] == [8192, 131_072, 4_194_304, 4000, 1536, 7]
    assert [metric(text) for text in ("1.3B", "350M", "5.76e23", "80G", "1e3", "7b")] == [
        1_300_000_000, 350_000_000, 576_000_000_000_000_000_000_000, 80_000_000_000, 1000, 7_000_000_000,
    ]  # fmt: skip


def test_pricing_a_name_imports_no_training_and_no_pictures():
    """The command has 2.5 s, of which torch takes half."""
    code = (
        "import sys; from anyformer.cli import main; sys.argv = ['anyformer', 'cost', 'llama-3-8b']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*[name for name in sys.modules if name.startswith(('anyformer.', 'matplotlib', 'rich.table', 'torch._dynamo'))])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.splitlines()[-1].split())
    for idle in ("training", "data", "generation", "huggingface", "planning", "pictures", "objectives"):
        assert not {name for name in loaded if re.match(rf"anyformer\.{idle}(\.|$)", name)}, idle
    assert not loaded & {"matplotlib", "torch._dynamo", "anyformer.costs.calibration", "anyformer.costs.difference"}


def test_training_is_priced_with_any_optimiser():
    asked = ["gpt2", "--tiny", "--length", "64", "--mode", "train", "--json"]
    choices = ((), ("--optimiser", "adamw"), ("--optimiser", "lion"))
    usual, adamw, lion = (json.loads(call(*asked, *words))[0]["sheets"][0] for words in choices)
    assert adamw.pop("optimiser")["kind"] == "adamw"
    assert adamw == usual
    assert lion["memory"]["optimiser"] == usual["memory"]["optimiser"] // 2
    sgd = call("gpt2", "--tiny", "--optimiser", '{kind="sgd",momentum=0.0}', "--length", "64", "--explain", "head")
    assert "trained with sgd" in sgd


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["lyon"], r"did you mean 'lion'\?"),
        (["lion", "--gpus", "8"], "--gpus lays training out with AdamW"),
        (["lion", "--measure"], "--measure trains with AdamW"),
        (['{kind="lion",momentum=1}'], "has no field 'momentum'"),
    ],
)
def test_an_optimiser_that_cannot_be_priced_is_refused(words, refusal):
    with pytest.raises(UserError, match=refusal):
        call("gpt2", "--tiny", "--optimiser", *words)


KV = ("--set", "decoder.layer.attention.kv_heads=1")


def test_what_set_changed_is_called_so_and_a_name_given_twice_is_the_base_beside_it():
    names = [each["name"] for each in json.loads(call("gpt2", *KV, "--json"))]
    assert names == ["gpt2, changed"]
    assert call("gpt2", *KV).startswith("gpt2, changed: ")
    base, changed = json.loads(call("gpt2", "gpt2", *KV, "--json"))
    assert (base["name"], changed["name"]) == ("gpt2", "gpt2, changed")
    assert base == json.loads(call("gpt2", "--json"))[0]
    assert [each["name"] for each in json.loads(call("gpt2", "opt-125m", *KV, "--json"))] == [
        "gpt2, changed",
        "opt-125m, changed",
    ]


def test_a_path_that_one_of_several_has_not_is_refused_by_its_name():
    with pytest.raises(UserError, match=r"^gemma-2-2b: decoder\.layer"):
        call("gpt2", "gemma-2-2b", *KV)


def test_a_plan_says_that_its_architecture_is_changed():
    for words in (["gpt2", "--serve"], ["gpt2", "--finetune"], ["gpt2", "--gpus", "8"]):
        found = CliRunner().invoke(app, ["plan", *words, *KV])
        assert "gpt2, changed" in " ".join(found.output.split()), words


def test_a_changed_stand_in_is_still_one():
    assert "a stand-in, whose figures are not exact" in call("gpt-4", "--set", "embedding.vocab=8k")
