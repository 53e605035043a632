"""The atlas in Debian's Chromium: its counts are those of the descriptions, filters and the tree by mouse and by keyboard, and
every sentence of a topic with its source."""

from __future__ import annotations

import pytest

from anyformer.atlas import atlas_data, topic, topic_page, topics
from anyformer.atlas.tree import tree
from anyformer.catalogue import listing
from browser.test_accessible import violations

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", autouse=True)
def worked_out() -> None:
    """The catalogue as a whole is kept before a page asks for it: working it out takes seconds."""
    atlas_data()


def shown(page):
    page.wait_for_selector(".atlas h1")
    return page


def tally(page) -> str:
    return page.locator(".tally strong").inner_text()


def test_trends_of_the_page_are_those_of_the_package(opened):
    page = shown(opened("#atlas/trends"))
    page.locator(".counts summary").click()
    rows = [row.split("\t") for row in page.locator(".counts tbody").inner_text().splitlines()]
    data = atlas_data()
    assert {row[0]: row[1:] for row in rows} == {
        data["mechanisms"][each["mechanism"]]["name"]: [f"{having}/{of}" for _, having, of in each["years"]]
        for each in data["trends"]
    }


def test_models_are_filtered_by_columns_and_the_address_keeps_the_filters(opened):
    page = shown(opened("#atlas/models/attention=MLA/experts=1-"))
    expected = {entry.name for entry in listing() if "MLA" in entry.columns.attention.split("+") and entry.columns.experts}
    assert set(page.locator(".models tbody th").all_inner_texts()) == expected
    page.locator('[data-key="attention-delta"]').check()
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('attention=MLA+delta')")
    wider = {
        entry.name
        for entry in listing()
        if {"MLA", "delta"} & set(entry.columns.attention.split("+")) and entry.columns.experts
    }
    assert set(page.locator(".models tbody th").all_inner_texts()) == wider
    assert tally(page) == f"{len(wider)} of {len(listing())}"
    page.get_by_role("button", name="clear all").click()
    assert tally(page) == f"{len(listing())} of {len(listing())}"


def test_a_window_stands_with_its_size_as_in_the_terminal(opened):
    page = shown(opened("#atlas/models/window=local/text=gemma-2"))
    column = page.locator(".models thead th").all_inner_texts().index("window")
    told = {
        row.locator("th").inner_text(): row.locator("td").nth(column - 1).inner_text()
        for row in page.locator(".models tbody tr").all()
    }
    sizes = {each.name: each.columns.window.replace("+full", "").replace("full+", "") for each in listing()}
    assert told
    assert told == {name: sizes[name].replace("+", ", ") for name in told}
    assert "local 4096" in told["gemma-2-9b"]


def test_the_tree_has_every_design_and_goes_by_keyboard(opened):
    page = shown(opened("#atlas/tree"))
    rows = page.locator(".rows li")
    assert rows.count() == len(tree())
    page.locator(".rows li[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator(".design h2").inner_text() == "bert-base-uncased"
    assert "norms of the embedding first here" in page.locator(".design").inner_text()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.locator(".design h2").inner_text() == "transformer-base"
    page.get_by_label("mark those with").select_option(label="RMSNorm")
    having = sum("RMSNorm" in {own.name for own in each.design.mechanisms} for each in tree())
    assert page.locator(".rows .has").count() == having


def test_the_tree_of_some_models_has_those_above_them(opened):
    page = shown(opened("#atlas/tree/has=sinks"))
    data = atlas_data()
    sinks = next(number for number, each in enumerate(data["mechanisms"]) if each["name"] == "sinks")
    named = {
        data["entries"][each["entries"][0]]["name"]
        for each in data["designs"]
        if sinks in data["entries"][each["entries"][0]]["mechanisms"]
    }
    assert set(page.locator(".rows li:not(.beyond) strong").all_inner_texts()) == named
    assert page.locator(".rows .beyond").count() > 0


@pytest.mark.parametrize("name", list(topics()))
def test_every_sentence_of_a_topic_stands_with_its_source(opened, name):
    page = shown(opened(f"#atlas/topics/{name}"))
    sentences = list(topic_page(topic(name)).sentences)
    told = page.locator(".told:not(.note)")
    assert told.count() == len(sentences)
    for text, each in zip(told.all_text_contents(), sentences, strict=True):
        assert each.text.replace("`", "") in text.replace("`", "")
        assert each.source.cited in text


def test_the_name_of_a_topic_alone_leads_to_it(opened):
    page = shown(opened("#atlas/positions"))
    page.wait_for_selector(f".topic h1:text-is('{topic('positions').title}')")
    assert page.url.endswith("#atlas/topics/positions")


def test_the_answer_on_positions_is_on_one_page_with_its_figure(opened):
    page = shown(opened("#atlas/topics/positions"))
    assert "From the trained 64 positions to 512, 8 times as many" in page.locator(".told").first.inner_text()
    assert "alibi 2.19 at 64" in page.locator(".figures svg").first.get_attribute("aria-label")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_atlas(opened, scheme):
    for hash in ("#atlas", "#atlas/tree/has=sinks", "#atlas/trends", "#atlas/models/attention=MLA", "#atlas/topics/attention"):
        page = shown(opened(hash, scheme=scheme, csp=False))
        assert violations(page) == [], hash


def test_an_unknown_topic_is_said(refusing):
    page = refusing("#atlas/topics/norm")
    page.wait_for_selector(".wrong")
    assert "did you mean 'norms'?" in page.locator(".wrong").inner_text()
