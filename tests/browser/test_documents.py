"""The documents' site in Debian's Chromium: pages, reference and search, in both colour schemes, without a request outside or a
word on the console. `make test-browser` runs these.

With PICTURES set to a directory, screenshots are left there to be looked at. With SITE set to one that `make docs` built,
it is opened, else it is built here, which takes half a minute.
"""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import anyformer

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
HOME = f"{anyformer.__version__}/index.html"
PAGES = {
    "home": "index.html",
    "start": "start.html",
    "guide": "costs.html",
    "objects": "api/parts-norms.html",
    "verbs": "api/anyformer.html",
    "notebook": "notebooks/look-inside.html",
    "catalogue": "catalogue/index.html",
    "study": "studies/norms/report.html",
    "mechanisms": "reference/parts.html",
    "contributing": "contributing/index.html",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site, whose builder has found no broken link."""
    if "SITE" in os.environ:
        return Path(os.environ["SITE"])
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "docs.website", str(out)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return out


@pytest.fixture(scope="module")
def address(site):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def opened(browser, address):
    """A page by its place, width and colour scheme; any message, error, failure or request outside fails the test."""
    said: list[str] = []

    def open_(place: str, width: int = 1280, scheme: str = "light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("response", lambda answer: said.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
        page.on("request", lambda asked: None if asked.url.startswith((address, "data:", "blob:")) else said.append(asked.url))
        page.goto(f"{address}{place}", wait_until="networkidle")
        return page

    yield open_
    assert said == []


def kept(page, name: str) -> None:
    if "PICTURES" in os.environ:
        page.screenshot(path=Path(os.environ["PICTURES"]) / f"site-{name}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_in_both_schemes(opened, name, scheme):
    page = opened(f"{anyformer.__version__}/{PAGES[name]}", scheme=scheme)
    kept(page, f"{name}-{scheme}")
    assert page.locator("article h1").first.is_visible()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").removesuffix(")")
    assert (int(ground.split(",")[0]) > 200) is (scheme == "light")
    for picture in page.locator("article img").all():
        assert picture.evaluate("each => each.complete && each.naturalWidth > 0")


def test_the_front_leads_to_the_newest_version(opened):
    page = opened("index.html")
    page.wait_for_url(f"**/{HOME}")
    page.locator(".md-version").wait_for()
    assert anyformer.__version__ in page.locator(".md-version").inner_text()


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("RMSNorm", "api/parts-norms.html"),
        ("resume", "checkpoints.html"),
        ("interval between saves", "failures.html"),
        ("look inside", "look-inside.html"),
    ],
)
def test_the_search_finds_a_page(opened, words, place):
    page = opened(HOME)
    page.keyboard.press("Control+k")
    search = page.get_by_role("dialog", name="Search")
    search.get_by_role("combobox").fill(words)
    found = search.locator(f"a[href*='{place}']").first
    found.wait_for()
    kept(page, f"search-{Path(place).stem}")
    found.click()
    page.wait_for_url(f"**/{place}*")


def test_the_keyboard_reaches_the_page_and_its_menus(opened):
    page = opened(HOME)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')").startswith("#")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_a_phone(opened, name):
    page = opened(f"{anyformer.__version__}/{PAGES[name]}", width=390)
    kept(page, f"{name}-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_page_can_be_read_from_a_disk(site, browser):
    page = browser.new_page()
    page.goto((site / HOME).as_uri())
    page.get_by_role("link", name="Describe an architecture", exact=True).first.click()
    assert page.url == (site / anyformer.__version__ / "architectures.html").as_uri()
    assert page.locator("article h1").inner_text().startswith("Describe an architecture")
