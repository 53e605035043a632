"""The chat page of `anyformer serve`, by keyboard: it streams, stops, says what is refused, and asks nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from anyformer.catalogue import architecture
from anyformer.describe import change
from anyformer.model.transformer import build
from anyformer.serving.application import application
from anyformer.serving.guard import ServingLimits
from anyformer.serving.serve import listening
from anyformer.text import Tokenizer
from anyformer.text.replies import CALL_FORMATS, REASONING_FORMATS, ReplyForm
from browser.conftest import Opened
from browser.test_accessible import violations
from serving.service import service
from text.chat.folders import CHATML, write

pytestmark = pytest.mark.browser
THINKS = CHATML + "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}"


@contextmanager
def served(folder: Any, template: str = CHATML, **how: Any) -> Iterator[str]:
    """The address of a server in this process."""
    tokenizer = Tokenizer.load(write(folder, template))
    model = build(change(architecture("llama-12m", tiny=True), "embedding.vocab", tokenizer.vocab_size), seed=3).eval()
    made = service(model, tokenizer, length=900, memory=2**30, **how)
    with listening("127.0.0.1", 0) as socket:
        server = uvicorn.Server(uvicorn.Config(application(made), log_level="warning", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{socket.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def visited(browser: Any) -> Iterator[Any]:
    """Opens an address; `said` holds what the page writes on its console, or asks of others."""
    kept = []

    def open_page(address: str, **how: Any) -> tuple[Any, list[str]]:
        pages = Opened(browser, address)
        kept.append(pages)
        return pages(**how), pages.said

    yield open_page
    for pages in kept:
        pages.close()


def ask(page: Any, words: str, **settings: str) -> Any:
    """Types and sends a message; the last article when it is whole."""
    page.locator("#settings").evaluate("(each) => { each.open = true }")
    for name, value in settings.items():
        page.fill(f"#{name}", value)
    count = page.locator("article").count()
    page.fill("#words", words)
    page.press("#words", "Enter")
    page.wait_for_function(f"() => document.querySelectorAll('#log[aria-busy=false] article').length === {count + 2}")
    return page.locator("article.assistant").last


def test_a_chat_by_keyboard(tmp_path: Any, visited: Any) -> None:
    with served(tmp_path) as address:
        page, said = visited(address)
        page.wait_for_function("() => document.title === 'tiny'")
        assert page.evaluate("document.activeElement.id") == "words"
        first = ask(page, "<b>hi</b>", seed="1", most="20").locator(".words").inner_text()
        assert page.locator("article.user .words").inner_text() == "<b>hi</b>"
        assert page.locator("#state").inner_text() == "20 tokens, length"
        assert page.evaluate("document.activeElement.id") == "words"
        again = ask(page, "more", seed="2", most="20").locator(".words").inner_text()
        page.get_by_role("button", name="New chat").press("Enter")
        assert page.locator("article").count() == 0
        assert ask(page, "<b>hi</b>", seed="1", most="20").locator(".words").inner_text() == first
        assert first != again
        assert said == []


def test_an_answer_is_stopped_by_escape(tmp_path: Any, visited: Any) -> None:
    with served(tmp_path) as address:
        page, said = visited(address)
        page.locator("#settings").evaluate("(each) => { each.open = true }")
        page.fill("#most", "800")
        page.fill("#words", "go")
        page.press("#words", "Enter")
        page.wait_for_function("() => document.querySelector('article.assistant > .words')?.textContent.length > 3")
        page.keyboard.press("Escape")
        page.get_by_text("Stopped.").wait_for()
        assert page.locator("#send").is_visible()
        assert said == []


def test_reasoning_stands_apart_and_a_key_is_asked_for(tmp_path: Any, visited: Any) -> None:
    form = ReplyForm(CALL_FORMATS["hermes"], REASONING_FORMATS["think"])
    with served(tmp_path, THINKS, replies=form, limits=ServingLimits(keys=("secret",))) as address:
        page, said = visited(address)
        page.get_by_role("alert").get_by_text("wants a key").wait_for()
        assert violations(page) == []
        page.fill("#key", "secret")
        page.press("#key", "Tab")
        page.wait_for_function("() => document.title === 'tiny'")
        article = ask(page, "why", seed="1", most="9", system="Be short.")
        article.get_by_text("Reasoning").click()
        assert article.locator("details .words").inner_text()
        assert all("401" in each for each in said)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(tmp_path: Any, visited: Any, scheme: str) -> None:
    with served(tmp_path) as address:
        page, _ = visited(address, scheme=scheme, csp=False, width=380)
        ask(page, "hi", seed="1", most="5")
        assert violations(page) == []
        page.fill("#most", "100000")
        page.fill("#words", "too much")
        page.press("#words", "Enter")
        page.get_by_role("alert").get_by_text("ask for fewer").wait_for()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
