"""How fast the explorer's page is, in Debian's Chromium (apt-get install chromium, pip install playwright) on this machine.

    python -m benchmarks.explorer

Bytes of a first visit, compressed as they are sent; the first paint of fresh browser profiles; and from giving a value to the
frame that shows its figures, for changes that nobody asked before: of numbers, of whole slots, of the call. Behind it the
diagram, the parts and the masks, and the traced memory of training. The page itself sets the marks.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

from benchmarks.sitting import RESULTS, machine, written

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
VISITS = 15
CHANGES: dict[str, dict[str, Sequence[str]]] = {
    "llama-3-8b": {
        "decoder.layer.attention.kv_heads": ("4", "2", "1", "16", "32"),
        "decoder.layer.feedforward.width": ("10240", "12288", "16384", "8192", "28672"),
        "decoder.layer.attention.rotary.theta": ("10000", "1000000"),
        "embedding.vocab": ("32000", "64000", "262144"),
    },
    "gemma-3-27b": {
        "decoder.local.attention.mask.size": ("512", "2048", "4096", "128"),
        "decoder.global.attention.kv_heads": ("8", "4", "1"),
        "decoder.local.feedforward.width": ("16384", "8192", "32768"),
    },
    "deepseek-v3": {
        "decoder.routed.latent_attention.heads": ("64", "96", "32", "16"),
        "decoder.dense.feedforward.width": ("16384", "8192", "4096"),
    },
    "qwen3-next-80b-a3b": {"embedding.vocab": ("32000", "64000", "100000", "262144")},
    "t5-11b": {"embedding.vocab": ("32000", "64000", "100000", "262144")},
}
"""Values that are given in turn, by architecture and path."""
CALLS = {"tokens": ("1k", "2k", "16k", "64k", "128k"), "batch": ("2", "8", "32", "128")}


@contextmanager
def serving(*names: str) -> Iterator[str]:
    """The address of `anyformer explore` in a process of its own, once it answers."""
    command = [sys.executable, "-m", "anyformer", "explore", *names, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            yield address_of(running)
        finally:
            running.send_signal(signal.SIGINT)
            try:
                running.wait(60)
            except subprocess.TimeoutExpired:
                running.kill()


def address_of(running: subprocess.Popen[str]) -> str:
    """The address that the command says, once it answers there."""
    assert running.stdout is not None
    said = running.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+", said)
    if found is None:
        raise SystemExit(f"anyformer explore: {said}{running.stdout.read()}")
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{found[0]}/").close()
            return found[0]
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{found[0]} does not answer")


def visit(browser: Any, address: str) -> dict[str, float]:
    """A first visit: milliseconds to the first paint and to the whole answer, bytes sent and unpacked."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"{address}/#of=llama-3-8b")
    page.wait_for_function("() => performance.getEntriesByName('drawn').length")
    found = page.evaluate(
        """() => {
          const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
          const drawn = performance.getEntriesByName("drawn")[0].startTime;
          const page = all.filter((each) => !each.name.includes("/api/"));
          const sum = (list, what) => list.reduce((total, each) => total + each[what], 0);
          return {
            first_paint: performance.getEntriesByName("first-contentful-paint")[0].startTime, drawn,
            page_bytes: sum(page, "transferSize"), page_bytes_unpacked: sum(page, "decodedBodySize"),
            bytes: sum(all, "transferSize"),
          };
        }"""
    )
    context.close()
    return dict(found)


def change(page: Any, selector: str, value: str) -> dict[str, float]:
    """Milliseconds from giving a value to the frames that show the figures, and everything that is declared."""
    page.evaluate("performance.clearMarks()")
    field = page.locator(selector)
    field.fill(value)
    field.press("Enter")
    page.wait_for_function("() => performance.getEntriesByName('drawn').length", polling=20)
    marks = page.evaluate("Object.fromEntries(performance.getEntriesByType('mark').map((each) => [each.name, each.startTime]))")
    return {name: marks[name] - marks["changed"] for name in ("answered", "drawn")}


def changes(browser: Any, address: str) -> list[dict[str, Any]]:
    """Every change of the table, each from the architecture as it was after the one before."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    found = []
    for name, paths in CHANGES.items():
        for path, values in paths.items():
            part = path.rpartition(".")[0]
            page.goto("about:blank")
            page.goto(f"{address}/#of={name}&part={part}")
            page.wait_for_function("() => performance.getEntriesByName('drawn').length")
            for value in values:
                found.append({"of": name, "path": path, "value": value, **change(page, f'[data-key="{path}"]', value)})
        for label, values in CALLS.items():
            key = {"tokens": "call-length", "batch": "call-batch"}[label]
            found += [{"of": name, "path": label, "value": value, **change(page, f"#{key}", value)} for value in values]
    context.close()
    return found


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and most."""
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 1),
        "percentile_95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 1),
        "most": round(ordered[-1], 1),
    }


def main() -> None:
    from playwright.sync_api import sync_playwright

    with serving("llama-3-8b") as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        visits = [visit(browser, address) for _ in range(VISITS)]
        changed = changes(browser, address)
        version = browser.version
        browser.close()
    result = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "chromium": version,
        "page_bytes": max(each["page_bytes"] for each in visits),
        "page_bytes_unpacked": max(each["page_bytes_unpacked"] for each in visits),
        "bytes_with_the_first_answer": max(each["bytes"] for each in visits),
        "milliseconds": {
            "first_paint": summary([each["first_paint"] for each in visits]),
            "whole_first_answer": summary([each["drawn"] for each in visits]),
            "figures_of_a_change": summary([each["answered"] for each in changed]),
            "whole_answer_of_a_change": summary([each["drawn"] for each in changed]),
        },
        "visits": visits,
        "changes": changed,
    }
    written(RESULTS / "explorer.json", result)
    print(json.dumps({name: result[name] for name in ("page_bytes", "bytes_with_the_first_answer", "milliseconds")}, indent=1))


if __name__ == "__main__":
    main()
