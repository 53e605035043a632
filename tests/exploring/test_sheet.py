"""Sheets of the explorer: figures are those of the cost sheet, parts add up to the whole, --set takes every path."""

from __future__ import annotations

import json
import shlex
from base64 import b64decode
from itertools import pairwise

import numpy as np
import pytest

import anyformer as af
from anyformer import catalogue
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.roofline import step_time
from anyformer.describe import change_all, from_json, from_toml, get, parse_assignment
from anyformer.exploring.desk import SECTIONS, Desk
from anyformer.exploring.forms import inline
from anyformer.exploring.question import question_of
from anyformer.exploring.tree import tree
from anyformer.model import Architecture
from anyformer.pictures.patterns import telling_length
from anyformer.planning.bill import RunBill

NAMES = (
    "gpt2",
    "gemma-2-2b",
    "deepseek-v3",
    "transformer-base",
    "whisper-tiny",
    "llava-1.5-7b",
    "rwkv-7-world-0.1b",
    "vit-base-16",
)
DESK = Desk()


def asked(of, *names, **query):
    return DESK.sections(question_of({"of": [of], **{key: list(value) for key, value in query.items()}}), *(names or SECTIONS))


def holds_together(name):
    """What a sheet owes: exact sums, paths that lead where they say, and JSON that any reader takes."""
    made, sheet = catalogue.architecture(name), asked(name)
    json.dumps(sheet, allow_nan=False)
    figures, parts = sheet["figures"], {part["path"]: part for part in sheet["parts"]}
    assert len(parts) == len(sheet["parts"])
    whole = parts[""]
    assert (whole["parameters"], whole["active"]) == (figures["parameters"]["total"], figures["parameters"]["active"])
    assert whole["flops"] == figures["flops"]["forward"]
    assert whole["state_bytes"] == (figures["state"]["total"] - figures["state"]["positions"] if figures["state"] else 0)
    for path, part in parts.items():
        inside = sum(each["parameters"] for each in parts.values() if each["parent"] == path and each["path"] != "mtp")
        own = sum(line["value"] * line["layers"] for line in part["formulas"] if line["of"] == "parameters")
        assert inside + own == part["parameters"], path
        assert part["parent"] is None or part["parent"] in parts
        assert part["class"] in sheet["classes"]
    for part in tree(made):
        for field in part.fields:
            assert get(made, field.path) == field.value, field.path
            assert field.name in sheet["classes"][type(field.owner).__name__]["fields"]
    opened = {each.split('"')[1] for each in sheet["diagram"]["svg"].split("data-part=")[1:] if each.startswith('"')}
    assert opened <= parts.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_sheet_holds_together(name):
    holds_together(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [entry.name for entry in catalogue.listing()])
def test_every_sheet_holds_together(name):
    holds_together(name)


@pytest.mark.parametrize(
    ("name", "length", "batch"), [("gemma-2-2b", 300, 2), ("t5-small", 64, 1), ("bert-base-cased", 128, 3)]
)
def test_figures_are_those_of_the_cost_sheet(name, length, batch):
    figures = asked(name, "figures", length=[str(length)], batch=[str(batch)])["figures"]
    sheet = af.cost(name, length=length, batch=batch, mode="train")
    assert figures["flops"]["training"] == {"dense": sheet.flops.total.dense, "exact": sheet.flops.total.exact}
    assert figures["flops"]["executed"]["total"] == sheet.executed.total
    assert figures["weights"] == dict(sheet.weights)
    assert figures["modes"] == list(sheet.modes)
    if "decode" in sheet.modes:
        prompt = sheet.of("prefill")
        assert figures["state"]["per_token"] == prompt.state_bytes_per_token
        assert figures["inference"]["bf16"] == prompt.required_bytes
        assert figures["flops"]["decode"]["exact"] == sheet.of("decode").flops.total.exact
    else:
        assert figures["state"] is figures["reading"] is figures["flops"]["decode"] is None


def test_times_and_prices_are_those_of_the_roofline_on_every_accelerator():
    query = {"on": ["a100", "h200"], "length": ["512"], "rate": ["3.5"]}
    found = asked("gemma-2-2b", "figures", **query)["figures"]["accelerators"]
    made, sheet = catalogue.architecture("gemma-2-2b"), af.cost("gemma-2-2b", length=512)
    assert [each["name"] for each in found] == ["a100", "h200"]
    for each in found:
        hardware = hardware_of(each["name"])
        for mode in ("train", "prefill", "decode"):
            time, told = (
                step_time(made, sheet.of(mode).shape, hardware.resolved(sheet.plan), hardware, mode),
                each["modes"][mode],
            )
            assert told["seconds"] == pytest.approx(time.seconds, rel=1e-12)
            assert told["intensity"] == pytest.approx(time.intensity)
            bill = RunBill(1, time.seconds / time.tokens * 1e6, hardware.power, 3.5)
            assert told["price_per_million_tokens"] == pytest.approx(bill.price)
            assert told["flops_per_second"] <= min(each["peak"], told["intensity"] * each["bandwidth"]) * (1 + 1e-9)


def test_an_accelerator_without_the_format_says_so():
    (found,) = asked("gpt2", "figures", on=["v100"], precision=["fp8"])["figures"]["accelerators"]
    assert found["modes"] == {}
    assert "no peak for 'fp8'" in found["why"]


def test_a_change_shows_in_figures_parts_and_diagram():
    plain, changed = (
        asked("gpt2", **({"set": [change]} if change else {})) for change in ("", "decoder.layer.attention.kv_heads=4")
    )
    assert changed["digest"] != plain["digest"]
    assert changed["figures"]["state"]["per_token"] * 3 == plain["figures"]["state"]["per_token"]
    (heads,) = (
        field for part in changed["parts"] for field in part["fields"] if field["path"] == "decoder.layer.attention.kv_heads"
    )
    assert (heads["value"], heads["text"], heads["default"]) == (4, "4", False)
    assert "Grouped-query attention" in changed["diagram"]["svg"]
    assert "Grouped-query attention" not in plain["diagram"]["svg"]


@pytest.mark.parametrize(("name", "title"), [("bloom-560m", "ALiBi"), ("deepseek-v3", "Score correction bias")])
def test_names_of_the_field_are_spelt_as_the_field_does(name, title):
    assert title in {part["title"] for part in asked(name)["parts"]}


def test_a_whole_slot_is_changed_by_its_kind_or_its_table():
    changes = ["decoder.layer.attention.mask.kind=window", "decoder.layer.attention.mask.size=64"]
    by_kind = asked("gpt2", "masks", set=changes, length=["256"])["masks"]
    by_table = asked("gpt2", "masks", set=['decoder.layer.attention.mask={kind = "window", size = 64}'], length=["256"])[
        "masks"
    ]
    assert by_kind == by_table
    assert by_kind["patterns"][0]["pairs"] == 64 * 65 // 2 + (256 - 64) * 64


def test_what_another_kind_has_no_field_for_is_noted():
    noted = asked("llama-3-8b", "figures", set=["decoder.layer.attention.kind=slstm"])["warnings"]
    assert noted[0] == ("decoder.layer.attention.kind=slstm leaves out what slstm has no field for: kv_heads, rotary.")


def test_cells_are_the_shares_of_the_mask():
    masks = asked("gemma-2-2b", "masks", length=["8192"])["masks"]
    for pattern in masks["patterns"]:
        cells = np.frombuffer(b64decode(pattern["cells"]), np.uint8).reshape(pattern["rows"], pattern["columns"]) / 255
        assert cells.mean() == pytest.approx(pattern["share"], abs=0.01)
        assert (np.triu(cells, 1) == 0).all()
    assert [place for pattern in masks["patterns"] for place in pattern["places"]] == [
        "decoder.local.attention",
        "decoder.global.attention",
    ]
    assert masks["strips"][0]["layers"][:2] == [[0], [1]]


@pytest.mark.parametrize(("name", "length"), [("gemma-2-2b", 16_384), ("gpt2", 32)])
def test_masks_of_no_length_show_their_patterns(name, length):
    assert telling_length(af.architecture(name)) == length, "as `anyformer show --masks` draws them"
    assert asked(name, "masks")["masks"]["length"] == length
    assert asked(name, "masks", length=["512"])["masks"]["length"] == 512


def test_masks_of_a_longer_call_are_those_of_the_longest_drawn():
    assert asked("gpt2", "masks", set=["decoder.position=none"], length=["1000000"])["masks"]["length"] == 131_072


CHANGES = [
    'decoder.layer.attention.mask={kind = "window", size = 64}',
    "decoder.layer.attention.kv_heads=4",
    "decoder.position=none",
    "embedding.vocab=32k",
]
CALL = {
    "length": ["2048"],
    "batch": ["4"],
    "precision": ["fp32"],
    "checkpointing": ["full"],
    "on": ["a100", "h100"],
    "rate": ["1.5"],
}


def test_forms_give_the_architecture_again():
    forms = asked("gpt2", "forms", set=CHANGES)["forms"]
    wanted = DESK.architecture("gpt2", CHANGES)
    assert from_toml(Architecture, forms["toml"]) == from_json(Architecture, forms["json"]) == wanted
    for command in ("set", "cost"):
        words = shlex.split(forms[command])
        given = dict(parse_assignment(word) for option, word in pairwise(words) if option == "--set")
        assert change_all(catalogue.architecture("gpt2"), given) == wanted


@pytest.mark.parametrize("query", [CALL, {"on": [""], "batch": ["2"]}, {}], ids=["all", "no accelerator", "usual"])
def test_what_is_copied_gives_the_same_answer_when_it_is_run(query, tmp_path, call):
    told = json.loads(json.dumps(asked("gpt2", "figures", "forms", set=CHANGES, **query)))
    (tmp_path / "mine.toml").write_text(told["forms"]["toml"])
    kept = told["forms"]["toml"].splitlines()[0].partition("mine.toml: ")[2]
    for command in (told["forms"]["set"], kept):
        program, *words = shlex.split(command)
        assert program == "anyformer"
        answer = json.loads(call(*words, cwd=tmp_path).stdout)
        assert (answer["figures"], answer["call"]) == (told["figures"], told["call"])


def test_the_copied_program_and_the_copied_costs_are_of_the_call(monkeypatch, capsys):
    told = asked("t5-small", "figures", "forms", set=["embedding.vocab=32k"], source=["512"], **CALL)
    seen: dict[str, object] = {}
    monkeypatch.setattr(af, "build", lambda arch, device: device)
    exec(told["forms"]["python"], seen)
    assert seen["model"] == "meta"
    sheets = seen["sheets"]
    said = [line.split() for line in capsys.readouterr().out.splitlines() if line.endswith("dollars per million tokens")]
    of = [(on["name"], mode) for on in told["figures"]["accelerators"] for mode in on["modes"]]
    prices = dict(zip(of, (float(words[3]) for words in said), strict=True))
    assert seen["arch"] == DESK.architecture("t5-small", ["embedding.vocab=32k"])
    for sheet, on in zip(sheets, told["figures"]["accelerators"], strict=True):
        assert (sheet.length, sheet.batch, sheet.source) == (2048, 4, 512)
        for mode, figures in on["modes"].items():
            assert sheet.of(mode).time.seconds == figures["seconds"]
            assert prices[on["name"], mode] == pytest.approx(figures["price_per_million_tokens"], rel=1e-12)
    lines = told["forms"]["cost"].splitlines()
    assert [shlex.split(line)[-1] for line in lines] == ["a100", "h100"]
    sizes = "--length 2048 --batch 4 --source-length 512 --precision fp32 --checkpointing full"
    assert all(sizes in line for line in lines)


def test_a_stack_says_its_kinds_of_layers_and_their_order():
    parts = {part["path"]: part["layered"] for part in asked("gemma-2-2b", "parts")["parts"]}
    order = {"order": "decoder.order", "value": "(local global)*13", "names": ["local", "global"]}
    assert {path: layered for path, layered in parts.items() if layered} == {"decoder": order}


@pytest.mark.parametrize("name", ["gemma-2-2b", "deepseek-v3", "whisper-tiny"])
def test_the_text_of_every_field_sets_it_to_what_it_is(name):
    made = catalogue.architecture(name)
    for part in asked(name, "parts")["parts"]:
        for field in part["fields"]:
            path, value = parse_assignment(f"{field['path']}={field['text']}")
            assert change_all(made, {path: value}) == made, field


def test_inline_is_toml_in_one_line():
    data = {"a b": [1, 2.5, True], "c": {"d": 'x"y\n'}}
    path, value = parse_assignment(f"p={inline(data)}")
    assert (path, value) == ("p", data)
    assert parse_assignment(f"p={inline(None)}") == ("p", None)
