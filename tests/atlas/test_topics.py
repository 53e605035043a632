"""Every sentence of every topic has a source that is there, and says what it does."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import typer

from anyformer.atlas import topic, topic_data, topic_page, topics
from anyformer.atlas.catalogue_sources import CatalogueQuery, EntrySource, LatestShares
from anyformer.atlas.documentation import Documentation, documented
from anyformer.atlas.holders import holders
from anyformer.atlas.measured_sources import ClaimSource, StudyBudget, StudyFinding, StudyNote
from anyformer.atlas.mechanism import Mechanism
from anyformer.atlas.papers import papers
from anyformer.atlas.pricing import Priced
from anyformer.atlas.registered import RegisteredKind
from anyformer.atlas.source import Sentence, problems
from anyformer.atlas.topic import TOPICS, PricedChange, mechanisms
from anyformer.atlas.written_documentation import WrittenDocumentation
from anyformer.catalogue import architecture, listing
from anyformer.cli import app
from anyformer.cli.listing import filtered
from anyformer.costs import cost
from anyformer.describe import UserError, change
from anyformer.plan import Plan
from anyformer.precision import Bf16

ROOT = Path(__file__).parents[2]
CLAIMED = (ROOT / "docs" / "reference" / "claims.md").read_text(encoding="utf-8").replace("**", "")
ANSWERS = (ROOT / "docs" / "studies" / "answers.toml").read_text(encoding="utf-8")
PROGRAM = typer.main.get_command(app)


@cache
def every() -> list[Sentence]:
    """Every sentence of every topic: worked out when it is first asked for, since it takes seconds."""
    return [sentence for each in topics().values() for sentence in topic_page(each).sentences]


def flat(text: str | None) -> str:
    return " ".join((text or "").replace(";", "").split())


def ours(part: object) -> list[object]:
    """A class with its bases of this package; a function alone."""
    bases = inspect.getmro(part) if isinstance(part, type) else [part]
    return [base for base in bases if base.__module__.startswith("anyformer.")]


def of(kind: type) -> list[Sentence]:
    found = [each for each in every() if isinstance(each.source, kind)]
    assert found
    return found


def test_every_sentence_has_a_source_that_says_it():
    assert problems(every()) == ()
    assert len(every()) > 600


def test_every_page_that_a_source_names_is_a_file():
    for page in {each.source.page for each in every()} - {""}:
        assert (ROOT / page).is_file(), page


def test_every_source_names_a_page_or_can_be_asked_again():
    for each in every():
        assert each.source.page or each.source.command, each.source


def test_documentation_is_quoted_as_it_stands():
    for each in of(Documentation):
        assert isinstance(each.source, Documentation)
        part = documented()[each.source.part]
        whole = "".join(map(inspect.getsource, ours(part))) if each.source.field else inspect.getdoc(part)
        assert flat(each.text) in flat(whole), each.source
        for paper in each.source.papers:
            assert paper.arxiv in inspect.getsource(part), paper


def test_numbers_of_the_catalogue_are_its_own():
    for each in of(CatalogueQuery):
        assert isinstance(each.source, CatalogueQuery)
        asked = each.source.mechanism
        if asked.column in ("norm", "position", "activation", "attention"):
            count = sum(asked.word in getattr(entry.columns, asked.column).split("+") for entry in listing())
            assert each.text.startswith(f"In {count:,} of {len(listing()):,} models"), each.text


def test_the_list_of_a_mechanism_has_just_its_entries():
    commands = {each.source.command: each.source for each in of(CatalogueQuery) if each.source.command}
    assert set(commands.values()) == {each.source for each in of(CatalogueQuery)}
    assert commands["anyformer list --attention gqa"].mechanism.name == "grouped-query attention (GQA)"
    for command, source in commands.items():
        _, verb, option, word = shlex.split(command)
        assert verb == "list"
        asked = {"has": [word]} if option == "--has" else {}
        found = {entry.name for entry in filtered([] if asked else [(option.removeprefix("--"), word)], **asked)}
        assert found == {entry.name for entry in holders(source.mechanism).entries}, command


def test_studies_are_quoted_from_their_reports():
    for each in of(StudyFinding):
        study = Path(each.source.page).parent.name
        report = json.loads((ROOT / "docs" / "studies" / study / "report.json").read_text(encoding="utf-8"))
        assert report["metric"] in each.text
        assert (ROOT / "recipes" / "studies" / f"{study}.toml").is_file()
        assert {paper.arxiv for paper in each.source.papers} <= set(re.findall(r"\d{4}\.\d{5}", ANSWERS))


def test_claims_are_quoted_from_their_page():
    for each in of(ClaimSource):
        claim, _, outcome = each.text.partition("): ")
        assert outcome.removesuffix(".") in CLAIMED, each.text
        assert claim.split(". ")[0] in CLAIMED, each.text


def test_prices_are_those_of_the_command_they_name():
    plan = Plan(precision=Bf16())
    for each in of(Priced):
        verb, *words = shlex.split(each.source.command)[1:]
        PROGRAM.commands[verb].make_context(verb, words)
    changed = Priced("llama-3-8b", PricedChange("One head", ("decoder.layer.attention.kv_heads=1",)))
    found = {each.what: each.ratio for each in changed.costs}
    base = architecture("llama-3-8b")
    sheets = [
        cost(made, length=4096, mode="prefill", plan=plan)
        for made in (base, change(base, "decoder.layer.attention.kv_heads", 1))
    ]
    assert found["parameters"] == sheets[1].params.total / sheets[0].params.total
    assert found["decode state"] == sheets[1].state_bytes / sheets[0].state_bytes


def test_the_answer_on_positions_is_that_of_the_trials():
    report = json.loads((ROOT / "docs" / "studies" / "positions" / "report.json").read_text(encoding="utf-8"))
    near = {each["name"]: each["numbers"] for each in report["arms"]}
    far = next(each["numbers"] for each in report["lengths"] if each["length"] == 512)
    order = sorted(far, key=lambda arm: sum(far[arm].values()) / len(far[arm]))
    answer = next(topic_page(topic("positions")).sentences).text
    places = [answer.index(f"{name.replace('_', ' ')} ") for name in order]
    assert places == sorted(places)
    assert "From the trained 64 positions to 512, 8 times as many" in answer
    for name in order:
        trained, beyond = (sum(each[name].values()) / len(each[name]) for each in (near, far))
        assert f"{name.replace('_', ' ')} from {trained:.2f} to {beyond:.2f} ({beyond - trained:+.2f})" in answer


def test_the_answer_on_positions_says_what_it_leaves_out():
    short = topic_page(topic("positions")).sections[0]
    notes = [each for item in short.items for each in item.sentences if isinstance(each.source, StudyNote)]
    (note,) = notes
    assert note.text in (ROOT / note.source.page).read_text(encoding="utf-8")
    assert "At the trained length rotary positions are the best here" in note.text
    recipe = tomllib.loads((ROOT / "recipes" / "studies" / "positions.toml").read_text(encoding="utf-8"))
    (rows,) = re.findall(r"length=(\d+)", recipe["arms"]["learned"]["set"][1])
    assert f"The learned table has {rows} rows, and those past the trained 64" in note.text
    (why,) = next(item.sentences for item in short.items if item.title == "Why ALiBi holds")
    assert "bias towards recency" in why.text
    assert [paper.arxiv for paper in why.source.papers] == ["2108.12409"]


def test_load_balancing_has_its_formula_its_key_and_its_holders():
    items = [item for section in topic_page(topic("experts")).sections for item in section.items]
    (balance,) = (item for item in items if item.title == "load balancing")
    said = [each.text for each in balance.sentences]
    assert said[0].startswith("X * sum over experts of f_e * P_e")
    assert "2101.03961" in {paper.arxiv for paper in balance.sentences[0].source.papers}
    assert "`experts.router.chosen`" in said[0]
    key = next(each for each in balance.sentences if each.source.cited == "Objective.balance_loss = 0.0")
    assert "Switch: 0.01" in key.text
    assert any("without a loss" in text for text in said)
    assert said[-1].startswith(f"In {len(holders(BIAS).entries)} of ")


BIAS = next(each for each in mechanisms() if each.part == "ScoreCorrectionBias")
BROKEN = [
    (WrittenDocumentation("no/such.py:place"), "the package has no file no/such.py"),
    (WrittenDocumentation("parts/experts/balance.py:balanse"), "parts/experts/balance.py says nothing of balanse"),
    (Documentation("NoSuchPart"), "no part is called 'NoSuchPart'"),
    (Documentation("Head", "tide"), "Head.tide has no documentation"),
    (EntrySource("gpt-9"), "no entry of the catalogue is called 'gpt-9'"),
    (CatalogueQuery(Mechanism("made up", "norms", part="RMSNorm")), "no topic has the mechanism 'made up'"),
    (StudyFinding(10_000), "findings, and none has the number 10000"),
    (StudyBudget("made-up"), "no study is called 'made-up'"),
    (StudyBudget("norms", beyond=True), "the study norms has one length"),
    (StudyNote("made-up"), "no study is called 'made-up'"),
    (StudyNote("relative-logits"), "nothing is noted of the question of the study relative-logits"),
    (ClaimSource("made-up"), "no claim is called 'made-up'"),
    (Priced("gpt-9", PricedChange("", ())), "no entry of the catalogue is called 'gpt-9'"),
    (Priced("gpt2", PricedChange("", ("decoder.layer.attention.headz=1",))), "headz"),
    (LatestShares("made-up"), "no trend is of the topic 'made-up'"),
    (RegisteredKind("anyformer.objectives:Objective", "made_up"), "has no kind 'made_up'"),
]


@pytest.mark.parametrize(("source", "said"), BROKEN, ids=lambda each: str(each)[:40])
def test_a_source_that_is_not_there_says_so(source, said):
    (found,) = problems([Sentence("Anything.", source)])
    assert said in found


def test_a_sentence_that_its_source_does_not_say_is_found():
    good = Sentence.of(Documentation("RMSNorm"))
    assert problems([good]) == ()
    assert "does not say" in problems([replace(good, text=good.text + " And more.")])[0]


def test_kinds_that_need_what_is_not_installed_say_so(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("anyformer.atlas.registered.import_module", missing)
    with pytest.raises(UserError, match="the kinds of Objective are read with torch: pip install torch"):
        RegisteredKind("anyformer.objectives:Objective", "causal").problem()


def test_the_latest_year_is_told_in_short():
    told = next(topic_page(topic("norms")).sentences).text
    latest = [entry for entry in listing() if entry.year == max(entry.year for entry in listing())]
    houses = {(entry.lineage, entry.organisation) for entry in latest}
    normed = {(entry.lineage, entry.organisation) for entry in latest if "RMSNorm" in entry.columns.norm.split("+")}
    assert f"Of the {len(houses)} families with a new model in {latest[0].year}" in told
    assert f"{len(normed)} have one with RMSNorm" in told


def test_an_entry_is_a_source():
    told = Sentence.of(EntrySource("llama-7b"))
    assert told.problem() is None
    assert "llama-7b" in told.text
    assert told.source.papers[0].url == "https://arxiv.org/abs/2302.13971"


@pytest.mark.parametrize(("text", "found"), [
    ("(Su et al. 2021, arXiv 2104.09864)", [("2104.09864", "Su et al. 2021")]),
    ("Zhang & Sennrich 2019 (1910.07467), arXiv 1910.07467", [("1910.07467", "Zhang & Sennrich 2019")]),
    ("DeepSeek-AI 2025 (2512.02556)", [("2512.02556", "DeepSeek-AI 2025")]),
    ("arXiv 2601.22966, eps 1910.5, version 5.23, 2013.99999", [("2601.22966", "arXiv 2601.22966")]),
    ("GPT-2", []),
])  # fmt: skip
def test_papers_are_read_from_a_text(text, found):
    assert [(paper.arxiv, paper.said) for paper in papers(text)] == found


def test_every_file_is_a_topic_and_every_topic_is_asked_in_words():
    assert {path.stem for path in TOPICS.glob("*.toml")} == set(topics())
    with pytest.raises(UserError, match=r"no topic is called 'position'; did you mean 'positions'\?"):
        topic("position")


def test_a_topic_in_data_has_the_sentences_of_its_page_and_what_is_drawn():
    data = json.loads(json.dumps(topic_data("attention")))
    said = [each["text"] for section in data["sections"] for item in section["items"] for each in item["sentences"]]
    assert said == [each.text for each in topic_page(topic("attention")).sentences]
    linked = {item["mechanism"] for section in data["sections"] for item in section["items"]} - {None}
    assert {mechanisms()[number] for number in linked} == set(topics()["attention"].mechanisms)
    assert {len(row) for mask in data["masks"] for row in mask["rows"]} == {32}
    causal = next(mask for mask in data["masks"] if mask["entry"] == "gpt2")
    assert all(cell == "0" for number, row in enumerate(causal["rows"]) for cell in row[number + 1 :])
    assert [each["study"] if "study" in each else each["name"] for each in topic_data("positions")["lengths"]] == [
        "positions", "relative-logits",
    ]  # fmt: skip
