"""The static site in Chromium, from a folder of a host of files: it opens, prices changes as we do, asks for nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from benchmarks.atlas import differs, drawn_change, exact
from tests.browser.conftest import Opened, explains_words

import anyformer as af
from anyformer import catalogue
from anyformer.costs.difference import difference
from anyformer.describe import change_all, parse_assignment, to_toml
from anyformer.exploring.figures import figures, sheet_of
from anyformer.exploring.question import PricedCall
from anyformer.exploring.site import write_site
from anyformer.exploring.site_entries import site_entries

NAMES = ("gpt2", "gemma-2-2b")
CELLS = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.replaceAll('\\n', '').trim()))"
RESOLVED = ("scale of embedding", "residual scale of initialisation", "kv heads of attention", "head width of attention")
"""Values that the page shows as they are said: a word, or absent."""
ASK = """
async ({ name, changes, call }) => {
  const { exactly } = await import("./evaluator.js");
  const read = async (address) => (await fetch(address)).json();
  const sheet = await read(`sheets/${name}.json`);
  const plain = (key, value) => (typeof value === "bigint" ? `bigint:${value}` : value);
  try { return JSON.stringify({ figures: await exactly(sheet, changes, call) }, plain); }
  catch (error) { return JSON.stringify({ errors: error.errors }); }
}
"""


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing of requests."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("host")
    (root / "my-gpt.toml").write_text(to_toml(catalogue.architecture("gpt2", tiny=True)))
    write_site(root / "lecture", site_entries([*NAMES, str(root / "my-gpt.toml")]))
    return root


@pytest.fixture
def site(browser: Any, folder: Path) -> Iterator[Opened]:
    """The site in a folder of a host; any word on the console, error, or request to elsewhere fails the test."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder))) as host:
        Thread(target=host.serve_forever, daemon=True).start()
        pages = Opened(browser, f"http://127.0.0.1:{host.server_address[1]}/lecture")
        yield pages
        pages.close()
        host.shutdown()
        assert pages.said == []


def test_changes_are_priced_in_the_page_to_the_unit(site, folder):
    page, drawn, answered = site(), random.Random(0), 0
    for name in NAMES * 12:
        changed = drawn_change(drawn, name, json.loads((folder / "lecture" / "sheets" / f"{name}.json").read_text()))
        answer = exact(json.loads(page.evaluate(ASK, changed.data)))
        ours = changed.ours()
        if "figures" in answer:
            assert ours is not None, changed
            assert not differs(answer["figures"], json.loads(json.dumps(ours))), changed
            answered += 1
    assert answered > 5


def test_a_change_shows_its_figures_and_says_what_stays(site):
    page = site("#of=gpt2&set=decoder.order=layer*24")
    page.get_by_text("Priced in this page by the declared formulas").wait_for()
    assert page.locator(".headlines").inner_text().startswith("parameters\n209")


def test_two_stand_side_by_side_with_what_differs(site):
    page = site("#of=gpt2&of=gemma-2-2b&of=my-gpt")
    rows = {row[0]: row[1:] for row in page.locator(".compare tbody tr").evaluate_all(CELLS)} if _drawn(page, 3) else {}
    assert rows["heads of attention"] == ["12", "8", "4"]
    assert rows["mask of local attention"] == ["causal", "window(size=4096)", "causal"]
    assert rows["norm"] == ["LayerNorm", "RMSNorm", "LayerNorm"]
    assert rows["parameters"][0] == "124\u202fM"
    named = {name: af.architecture(name) for name in NAMES}
    ours = {each.what: [each.left, each.right] for each in difference(*named.values(), length=64).details}
    shared = {what for what in ours if what in rows and what not in RESOLVED}
    assert len(shared) > 12
    assert {what: rows[what][:2] for what in shared} == {what: ours[what] for what in shared}
    assert page.get_by_text("are worked out by anyformer explore").count() == 1


def _drawn(page, number):
    page.locator(".compare svg svg").nth(number - 1).wait_for()
    return page.locator(".compare svg svg").count() == number


def test_an_entry_beside_itself_differs_in_what_was_changed(site):
    page = site("#of=gpt2&of=gpt2&set=1:decoder.layer.attention.heads=16&set=1:width=1024")
    assert _drawn(page, 2)
    rows = {row[0]: row[1:] for row in page.locator(".compare section.wide tbody tr").evaluate_all(CELLS)}
    assert rows == {"width": ["768", "1,024"], "heads of attention": ["12", "16"]}
    changed = change_all(af.architecture("gpt2"), {"decoder.layer.attention.heads": 16, "width": 1024})
    costs = {row[0]: row[1:] for row in page.locator("table.costs tbody tr").evaluate_all(CELLS)}
    assert costs["parameters"] == ["124\u202fM", f"{af.cost(changed).params.total / 1e6:.0f}\u202fM+43.4\u202f%"]
    page = site("#of=gpt2&of=gpt2&set=1:decoder.layer.attention.heads=7")
    page.get_by_text("gpt2: leaves the table of this page").wait_for()


def test_a_changed_number_stands_in_its_field(site):
    page = site("#of=gpt2&set=decoder.layer.attention.heads=16&set=width=1024&part=decoder.layer.attention")
    assert page.get_by_role("textbox", name="heads", exact=True).input_value() == "16"


def test_another_accelerator_and_another_rate_are_priced(site):
    page = site("#of=gpt2&on=h100&on=a100&on=tpu-v5p&rate=3.5")
    page.locator(".speeds tr.of").nth(2).wait_for()
    rows = page.locator(".speeds tbody tr").evaluate_all(CELLS)
    call = PricedCall(on=("h100", "a100", "tpu-v5p"), rate=3.5)
    ours = figures(sheet_of(af.architecture("gpt2"), call), call)["accelerators"]
    assert [row[0] for row in rows if len(row) == 1] == [each["title"] for each in ours]
    prices = [each["modes"][mode]["price_per_million_tokens"] for each in ours for mode in ("train", "prefill", "decode")]
    assert [float(row[5].removeprefix("$")) for row in rows if len(row) > 1] == pytest.approx(prices, rel=0.05)
    assert "memory" in rows[1][4], "what a step waits for is known of the usual accelerator"
    assert page.get_by_text("Spread evenly: 1 × H100").count() == 1
    page.get_by_label("$ per hour").fill("none")
    page.get_by_label("$ per hour").press("Enter")
    page.get_by_text("should be dollars for an hour of one accelerator").first.wait_for()


@pytest.mark.parametrize(("name", "given"), [("gpt2", "4"), ("gemma-2-2b", "none")])
def test_an_absent_number_is_given_and_taken_away_in_its_field(site, name, given):
    page = site(f"#of={name}&part=decoder.{'layer' if name == 'gpt2' else 'local'}.attention")
    field = page.get_by_role("textbox", name="kv heads", exact=True)
    if not field.is_visible():
        page.locator("details.others summary").first.click()
    field.fill("" if given == "none" else given)
    field.press("Enter")
    page.get_by_text("Priced in this page by the declared formulas").wait_for()
    path = "decoder.layer.attention.kv_heads" if name == "gpt2" else "decoder.local.attention.kv_heads"
    ours = af.cost(change_all(af.architecture(name), {path: None if given == "none" else int(given)})).params.total
    assert page.locator(".headlines strong").first.get_attribute("title") == f"{ours:,}"
    assert field.input_value() == ("" if given == "none" else given)


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("gpt2", ["decoder.layer.attention.mask.kind=window", "decoder.layer.attention.mask.size=64"]),
        ("gpt2", ['decoder.layer.attention.mask={kind = "window", size = 64}']),
        ("gemma-2-2b", ['decoder.local.attention.mask={kind = "causal"}']),
        ("gemma-2-2b", ["decoder.local.attention.mask.kind=window", "decoder.local.attention.mask.size=100"]),
    ],
)
def test_a_window_is_given_and_taken_away(site, name, sets):
    page = site(f"#{urlencode([('of', name), *(('set', each) for each in sets)])}")
    page.get_by_text("Priced in this page by the declared formulas").wait_for()
    call = PricedCall()
    made = change_all(af.architecture(name), dict(map(parse_assignment, sets)))
    ours = figures(sheet_of(made, call), call)
    assert page.locator(".headlines strong").nth(1).get_attribute("title") == whole(ours["flops"]["per_token"]["forward"])
    assert page.locator(".headlines strong").nth(2).get_attribute("title") == whole(ours["state"]["per_token"])


def test_a_window_is_taken_away_by_the_kind_of_its_part(site):
    page = site("#of=gemma-2-2b&part=decoder.local.attention.mask")
    page.get_by_label("kind", exact=True).select_option(label="causal")
    page.get_by_text("Priced in this page by the declared formulas").wait_for()
    ours = change_all(af.architecture("gemma-2-2b"), {"decoder.local.attention.mask": {"kind": "causal"}})
    assert page.locator(".headlines strong").nth(2).get_attribute("title") == whole(
        af.cost(ours, length=4096).state_bytes_per_token
    )


def whole(value: float) -> str:
    """A number as the page writes all of it."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def test_an_own_architecture_is_found_and_its_changes_are_taken_along(site):
    page = site("#of=my-gpt&set=decoder.order=layer*3")
    page.get_by_role("heading", name="my-gpt").wait_for()
    assert page.get_by_text("open its model").count() == 0
    page.keyboard.press("c")
    page.get_by_role("tab", name="cost").click()
    assert "anyformer cost my-gpt.toml --set 'decoder.order=layer*3'" in page.locator("#form-shown").inner_text()
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    page.keyboard.press("/")
    page.keyboard.type("my-g")
    page.locator("#found [role=option]").get_by_text("my-gpt").wait_for()


@pytest.mark.parametrize(
    ("set", "said"),
    [
        ("decoder.layer.attention.heads=7", "its formulas hold while (width % attention.heads) == 0"),
        ("decoder.layer.attention.heads=0", "should be a whole number from 1"),
        ("decoder.layer.attention.heads=many", "changes more than the numbers of 12"),
        ("decoder.order=layer*2 layer*3", "changes more than the numbers"),
        ("decoder.layer.attention.kv_heads=many", "should be a whole number, or none, got many"),
        ("decoder.layer.attention.mask.size=8", "is no number that is priced"),
        ("decoder.layer.attention.mask.kind=window", "a window needs its size: give decoder.layer.attention.mask.size too"),
        ("decoder.layer.attention.mask={kind = 'window', size = 8, after = 1}", "is no number that is priced"),
        ("decoder.layer.attention.kind=mamba", "is no number that is priced in this page"),
    ],
)
def test_a_change_that_leaves_the_table_says_so_in_place(site, set, said):
    page = site(f"#of=gpt2&set={set}")
    page.get_by_text(said).wait_for()


def test_the_atlas_opens_without_a_server(site):
    page = site("#atlas/topics/positions")
    page.get_by_role("heading", name="Positions", exact=False).first.wait_for()


def test_an_entry_without_a_sheet_is_no_link_and_says_where_it_is(site):
    page = site("#atlas/models")
    page.locator(".models tbody tr").first.wait_for()
    linked = page.locator("#main a[href^='#of=']").evaluate_all("links => links.map(link => link.textContent)")
    assert set(linked) == set(NAMES)
    title = page.locator(".models th span").get_by_text("llama-3-8b", exact=True).get_attribute("title")
    assert title == "not in this site: anyformer explore llama-3-8b"
    page = site("#atlas/topics/positions")
    page.locator("table.costs").wait_for()
    assert page.locator("#main a[href^='#of=']").count() == 0
    assert "--set" in page.locator("table.costs tbody span.elsewhere").first.get_attribute("title")
    page = site("#of=llama-3-8b")
    told = page.locator("#main [role=status]")
    told.get_by_text("In the catalogue, and not in this site.").wait_for()
    assert told.locator("h1").inner_text() == "llama-3-8b"
    assert told.locator("code").first.inner_text() == "anyformer explore llama-3-8b"
    assert "`" not in told.inner_text()
    assert page.locator("#main [role=alert]").count() == 0


def test_search_counts_what_is_there_and_finds_topics(site):
    page = site("#of=gpt2")
    assert page.locator("#searched").get_attribute("placeholder") == "search 3 architectures"
    page.locator("#searched").fill("trained length")
    page.locator("#found [role=option]").get_by_text("Positions", exact=True).wait_for()
    page.locator("#searched").fill("no such word")
    page.locator("#found").get_by_text("none has all these words, nor is it a word of the glossary").wait_for()
    assert page.locator("#found code").count() == 0


def test_search_says_what_is_in_the_catalogue_and_not_in_this_site(site):
    page = site("#of=gpt2")
    page.locator("#searched").fill("qwen3-8b")
    first = page.locator("#found [role=option]").first
    first.get_by_text("in the catalogue, and not in this site: ").wait_for()
    assert first.locator("strong").inner_text() == "qwen3-8b"
    assert first.locator("code").all_inner_texts() == [
        "anyformer explore qwen3-8b",
        "anyformer atlas --out DIRECTORY --entry qwen3-8b",
        "--entry",
    ]
    line = first.locator("small")
    assert line.inner_text().startswith("anyformer explore qwen3-8b opens it, ")
    assert line.evaluate("line => line.scrollWidth <= line.clientWidth"), "the line wraps, and nothing of it is cut"
    page.locator("#searched").press("Enter")
    page.locator("#main [role=status] h1").get_by_text("qwen3-8b", exact=True).wait_for()
    page.locator("#searched").fill("gpt2")
    page.locator("#found [role=option]").first.get_by_text("gpt2", exact=True).wait_for()
    assert "not in this site" not in page.locator("#found [role=option]").first.inner_text()


def test_search_explains_words_of_the_field(site):
    explains_words(site("#of=gpt2"))


def test_a_page_opened_as_a_file_says_how_to_see_it(browser, folder):
    page = browser.new_page()
    page.goto((folder / "lecture" / "index.html").as_uri())
    page.get_by_text("python -m http.server").wait_for()
    page.close()
