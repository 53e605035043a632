"""`report.html` in Debian's Chromium: it renders without a word on the console, filters and hover work, in both colour schemes,
on paper and on a phone. `make test-browser` runs these, and needs `apt-get install chromium`.

With PICTURES set to a directory, screenshots are left there to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyformer.catalogue.llama import llama
from anyformer.data import Bytes, Text
from anyformer.plan import Plan
from anyformer.studies import Arm, ArmTuning, Ladder, SizeGate, Study
from anyformer.studies.findings import findings
from anyformer.studies.page import write_page
from anyformer.training import Run
from made_up import gone_through

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    """The page of a study with gates, a ladder and a grid."""
    place = tmp_path_factory.mktemp("page")
    (place / "text.txt").write_text("some text\n" * 400)
    base = Run(
        steps=40, batch=4, length=32, data=Text(paths=(str(place / "text.txt"),), tokenizer=Bytes(), validation=0.1),
        architecture=llama(width=64, depth=2, heads=2, kv_heads=2, ffn=128, vocab=257, tied=True),
        plan=Plan(precision="fp32", compile="off"),
    )  # fmt: skip
    arms = {
        "one_head": Arm(set=("decoder.layer.attention.kv_heads=1",)),
        "gelu": Arm(set=("decoder.layer.feedforward.activation=gelu",)),
        "relu": Arm(set=("decoder.layer.feedforward.activation=relu",)),
    }
    study = Study(
        title="One key head, or another activation?", base=base, arms=arms, seeds=(1, 2, 3),
        gates=(SizeGate(size=0.25, keep=2),), ladder=Ladder(sizes=(0.25, 0.5)),
        tuning=ArmTuning(values=(3e-3, 6e-3, 1.2e-2), widen=0),
    )  # fmt: skip
    ran, _ = gone_through(study)
    write_page(findings(ran), place / "report.html")
    return place / "report.html"


@pytest.fixture
def opened(browser, page_file):
    """A page by its width and colour scheme; any message, error or request of it fails the test."""
    said: list[str] = []

    def open_(width: int = 1200, scheme: str = "light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else said.append(request.url))
        page.goto(page_file.as_uri())
        return page

    yield open_
    assert said == []


def kept(page, name: str) -> None:
    if "PICTURES" in os.environ:
        page.screenshot(path=Path(os.environ["PICTURES"]) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_in_both_schemes(opened, scheme):
    page = opened(scheme=scheme)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 24, 27)")
    assert page.locator("figure svg").count() >= 4
    assert page.locator("figure svg").first.bounding_box()["height"] > 50
    # A link of the list of sections goes to its section.
    for link in page.locator("nav a").all():
        assert page.locator(link.get_attribute("href")).count() == 1
    kept(page, scheme)


def test_nothing_is_wider_than_a_phone(opened):
    page = opened(width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    text = page.locator("figure svg text").first
    assert text.bounding_box()["height"] >= 8  # large enough to read
    kept(page, "phone")


def test_boxes_hide_and_show_an_arm(opened):
    page = opened()
    box = page.get_by_label("gelu", exact=True)
    rows = page.locator("tr[data-arm=gelu]")
    assert rows.first.is_visible()
    marks = page.locator("svg [style*='var(--c2)']")
    assert marks.locator("visible=true").count() > 0
    box.uncheck()
    assert not rows.first.is_visible()
    assert not page.locator("li[data-arm=gelu]").is_visible()
    assert marks.locator("visible=true").count() == 0
    assert page.locator("tr[data-arm=one_head]").first.is_visible()
    box.check()
    assert rows.first.is_visible()


def test_pointing_at_a_row_makes_other_arms_pale(opened):
    page = opened()
    page.locator("tr[data-arm=one_head] td").first.hover()
    assert page.locator("tr.lit[data-arm=one_head]").count() > 0
    assert page.locator("svg [style*='var(--c2)'].pale").count() > 0
    assert page.locator("svg [style*='var(--c1)'].pale").count() == 0
    page.locator("h1").hover()
    assert page.locator(".pale, .lit").count() == 0


def test_the_keyboard_reaches_everything(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("gelu", exact=True).focus()
    page.keyboard.press("Space")
    assert not page.get_by_label("gelu", exact=True).is_checked()


def test_paper_shows_the_answer_without_boxes(opened):
    page = opened()
    page.emulate_media(media="print")
    assert not page.locator(".arms").is_visible()
    assert page.locator(".verdicts").is_visible()
