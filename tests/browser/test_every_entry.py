"""Every entry of the catalogue is drawn in Debian's Chromium, with its parameters, without a word on the console."""

from __future__ import annotations

import pytest

from anyformer import catalogue

pytestmark = pytest.mark.browser


def test_every_entry_is_drawn(opened):
    page = opened("#of=gpt2")
    for entry in catalogue.listing():
        page.evaluate("name => { location.hash = new URLSearchParams({of: name}); }", entry.name)
        page.wait_for_function(
            """name => document.title.startsWith(`${name} `)
              && document.querySelector('.drawing')?.getAttribute('aria-label').includes(name)""",
            arg=entry.name,
        )
        said = page.locator(".headlines strong").first.get_attribute("title")
        assert int(said.replace(",", "")) == entry.columns.parameters, entry.name
        assert page.locator(".refused, .wrong").count() == 0, entry.name
        assert opened.said == [], entry.name
