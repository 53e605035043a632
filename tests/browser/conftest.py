"""Debian's Chromium, the explorer's page on a port of this machine, and what a page says on its console."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.explorer import CHROMIUM, serving


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if not Path(CHROMIUM).is_file():
        pytest.skip("apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def explorer() -> Iterator[str]:
    """The address of `anyformer explore`, run for all tests of the page."""
    with serving("llama-3-8b") as address:
        yield address


def explains_words(page: Any) -> None:
    """A page's search finds words of the glossary by any of their names, and explains them."""
    page.locator("#searched").fill("kv cache")
    found = page.locator("#found [role=option]").first
    found.get_by_text("decode state, KV cache, key-value cache").wait_for()
    assert "what decoding keeps of the tokens before" in found.inner_text()
    page.locator("#searched").press("Enter")
    told = page.get_by_role("dialog", name="decode state, KV cache")
    told.get_by_text('anyformer help "decode state"').wait_for()
    assert "More in docs/costs.md: Serving" in told.inner_text()
    page.keyboard.press("Escape")
    told.wait_for(state="detached")
    for spelt in ("KV-Cache", "kv_caches"):
        page.locator("#searched").fill("")
        page.locator("#searched").fill(spelt)
        page.locator("#found [role=option]").first.get_by_text("decode state, KV cache, key-value cache").wait_for()


class Opened:
    """Pages of an address; what a page says on its console, throws, or asks of another host is kept in `said`."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser, self.address, self.said = browser, address, list[str]()

    def __call__(self, hash: str = "", *, width: int = 1440, height: int = 900, scheme: str = "light", csp: bool = True) -> Any:
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=not csp, reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )  # fmt: skip
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.foreign(request.url))
        page.goto(f"{self.address}/{hash}")
        return page

    def close(self) -> None:
        for context in self.browser.contexts:
            context.close()

    def foreign(self, url: str) -> None:
        if not url.startswith((self.address, "data:")):
            self.said.append(url)


@pytest.fixture
def opened(browser: Any, explorer: str) -> Iterator[Opened]:
    """The explorer by its hash; any word on the console, error, or request to elsewhere fails the test."""
    pages = Opened(browser, explorer)
    yield pages
    pages.close()
    assert pages.said == []


@pytest.fixture
def refusing(browser: Any, explorer: str) -> Iterator[Opened]:
    """The same where something is refused, whose status the browser itself writes on the console."""
    pages = Opened(browser, explorer)
    yield pages
    pages.close()
    assert pages.said
    assert all(re.search("status of 4(00|04|22)|ERR_INTERNET_DISCONNECTED", said) for said in pages.said), pages.said
