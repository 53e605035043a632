"""axe-core finds no violation in the explorer's pages, in both colour schemes. Its script comes with axe-playwright-python."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser
PAGES = {
    "sheet": "#of=llama-3-8b",
    "part": "#of=deepseek-v3&part=decoder.routed.latent_attention&set=decoder.routed.latent_attention.heads%3D64",
    "windows": "#of=gemma-3-27b&on=h100&on=a100&on=tpu-v5p",
    "beside": "#of=llama-3-8b&of=qwen3-8b",
}


def violations(page) -> list[str]:
    """What axe says of the page as it is, with the place."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    found = axe.run(page).response["violations"]
    return [f"{each['id']}: {node['target']} {node['html'][:120]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(opened, name, scheme):
    page = opened(PAGES[name], scheme=scheme, csp=False)
    page.wait_for_selector(".drawing")
    page.wait_for_function("() => !document.querySelector('.pending')")
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_what_opens(opened, scheme):
    page = opened(PAGES["sheet"], scheme=scheme, csp=False)
    page.wait_for_selector(".drawing")
    for key, place in (("/", "#found li"), ("?", "dialog kbd"), ("c", "dialog pre")):
        page.keyboard.press(key)
        page.wait_for_selector(place)
        assert violations(page) == []
        page.keyboard.press("Escape")
        page.wait_for_function("() => !document.querySelector('dialog')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_where_something_is_refused(refusing, scheme):
    page = refusing("#of=lama-3-8b", scheme=scheme, csp=False)
    page.wait_for_selector(".refused")
    assert violations(page) == []


def test_axe_finds_what_is_wrong(opened):
    page = opened(PAGES["sheet"], csp=False)
    page.wait_for_selector(".drawing")
    page.evaluate(
        "document.querySelector('h1').style.color = '#eeeeee'; document.querySelector('#call-length').labels[0].remove()"
    )
    assert {each.partition(":")[0] for each in violations(page)} >= {"color-contrast", "label"}
