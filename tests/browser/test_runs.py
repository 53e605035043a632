"""Runs and a study on the explorer's page: curves with the band of seeds, predictions beside measurements, trials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.explorer import serving

import anyformer as af
from anyformer.catalogue.llama import llama
from anyformer.data import Bytes, Text
from anyformer.huggingface.saelens import export_saelens
from anyformer.model import dictionary_alone
from anyformer.parts import Dictionary
from anyformer.plan import Plan
from anyformer.studies import Arm, Study
from anyformer.training import Run

pytestmark = pytest.mark.browser


def run_of(place: Path, seed: int = 1) -> Run:
    return Run(
        seed=seed, steps=12, batch=2, length=32, data=Text(paths=(str(place / "text.txt"),), tokenizer=Bytes(), validation=0.1),
        architecture=llama(width=32, depth=1, heads=2, kv_heads=2, ffn=64, vocab=257, tied=True),
        plan=Plan(precision="fp32", compile="off"),
    )  # fmt: skip


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """Two runs that differ in their seed, a study of one arm, and a sparse dictionary of the stream behind the layer."""
    place = tmp_path_factory.mktemp("runs")
    (place / "text.txt").write_text("some text of a few words\n" * 400)
    for seed in (1, 2):
        af.train(run_of(place, seed), place / f"seed-{seed}")
    made = af.build(dictionary_alone(Dictionary(features=40), 32, 1.0), seed=3)
    export_saelens(made, place / "features", metadata={"hook_name": "blocks.0.hook_resid_post"})
    arms = {"one_head": Arm(set=("decoder.layer.attention.kv_heads=1",))}
    af.compare(Study(title="One key head?", base=run_of(place), arms=arms, seeds=(1, 2)), place / "study")
    return place


@pytest.fixture(scope="session")
def explorer(runs) -> Iterator[str]:
    with serving(*(str(runs / name) for name in ("seed-1", "seed-2", "study", "features"))) as address:
        yield address


def test_runs_have_curves_with_the_band_of_seeds(opened, runs):
    page = opened(f"?of={runs / 'seed-1'}&of={runs / 'seed-2'}")
    page.wait_for_selector(".runs svg.chart")
    assert page.locator("h1").inner_text() == "2 runs"
    assert page.locator(".of-runs tbody tr").count() == 2
    loss = page.locator("section", has=page.get_by_role("heading", name="loss", exact=True)).locator("svg")
    assert "2 seeds" in loss.get_attribute("aria-label")
    assert loss.locator("path.band").count() == 1
    assert page.get_by_text("predicted and measured").count() == 2
    page.get_by_label("curves over").select_option("tokens")
    assert "at tokens 768" in loss.get_attribute("aria-label")
    page.get_by_role("link", name="its architecture").first.click()
    page.wait_for_selector(".sheet .drawing")
    assert page.locator("h1").inner_text() == "seed-1"


def test_a_study_shows_arms_and_trials_whose_curves_open(opened):
    page = opened("")
    page.get_by_role("link", name="study", exact=True).click()
    page.wait_for_selector("h1:text-is('One key head?')")
    assert page.locator("section:has(> h2:text-is('trials')) tbody tr").count() == 4
    page.locator("section:has(> h2:text-is('trials')) tbody a").first.click()
    page.wait_for_selector(".of-runs")


def test_a_model_is_opened_by_a_text(opened, runs):
    page = opened(f"#model={runs / 'seed-1'}")
    page.get_by_label("text", exact=True).fill("some text")
    page.get_by_role("button", name="open", exact=True).click()
    page.wait_for_selector("table.lens", timeout=60_000)
    assert page.locator(".tokens .token").count() == len("some text")
    assert page.locator(".tokens .token[aria-pressed=true]").get_attribute("data-key") == "token-8"
    assert page.locator("table.lens tbody th").first.inner_text() == "decoder.layer[0].input"
    assert page.locator("table.attribution tbody tr").last.locator("th").inner_text() == "in all"
    offered = page.locator(".likeliest button:enabled[aria-pressed=false]").first
    word = offered.inner_text()
    offered.click()
    page.wait_for_selector(f".likeliest button[aria-pressed=true]:text-is('{word}')")
    chosen = page.get_by_label("answer token")
    assert chosen.input_value() == word.replace("␣", " ")
    page.wait_for_selector(f"h2:has-text('after each layer, the darker the likelier “{word}” is')")
    page.get_by_label("patched into").fill("same text")
    chosen.fill("xt")
    page.get_by_role("button", name="open", exact=True).click()
    page.wait_for_selector("[role=alert]:has-text('is 2 tokens (x t)')", timeout=60_000)
    chosen.fill("x")
    page.get_by_label("less that of").fill("m")
    page.get_by_role("button", name="open", exact=True).click()
    page.wait_for_selector("h2:has-text('patched: how much of the logit of x less m')", timeout=60_000)
    assert page.locator("td.shaded").evaluate_all("each => each.some((cell) => cell.textContent.startsWith('-0.000'))") is False
    page.wait_for_selector("table.active-features tbody button", timeout=60_000)
    page.locator(".tokens .token").nth(2).click()
    page.wait_for_selector("h2:has-text('features are active at token 2, “m”')")
    page.locator("table.active-features tbody button").first.click()
    page.wait_for_selector("h2:has-text('in the text')")
    assert page.locator(".fired span").count() == len("some text")
    page.locator("table.heads button").first.click()
    assert page.locator("svg.look").first.get_attribute("aria-label") == "head 0"
    assert page.locator("svg.look").count() == 2
    page.locator(".lens .cell").first.click()
    page.wait_for_selector("h2:has-text('at token 0')")
    page.wait_for_selector("h2:has-text('what its checkpoints write')")
    page.locator(".keys pre").first.evaluate("each => { each.textContent = 'word '.repeat(400) + 'x'.repeat(2000) }")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    watched = opened(f"#model={runs / 'seed-1'}&text=some+text", csp=False)
    watched.wait_for_selector("table.lens", timeout=60_000)
    assert [(each["id"], each["nodes"][0]["html"]) for each in axe.run(watched).response["violations"]] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened, runs, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    for hash in (f"#run={runs / 'seed-1'}&run={runs / 'seed-2'}", f"#study={runs / 'study'}"):
        page = opened(hash, scheme=scheme, csp=False)
        page.wait_for_selector(".runs table")
        assert [(each["id"], each["nodes"][0]["html"]) for each in axe.run(page).response["violations"]] == []
