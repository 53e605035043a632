"""The explorer's page in Debian's Chromium: what it shows is what `anyformer cost` says, what is changed is priced anew, what
is refused is said in place; by keyboard, on paper and on a phone. `make test-browser` runs these.

Time is measured by `python -m benchmarks.explorer` and judged by no test.
"""

from __future__ import annotations

import json
import re
import shlex

import pytest
from tests.browser.conftest import explains_words

import anyformer as af
from anyformer.catalogue import listing

pytestmark = pytest.mark.browser
HEADS = "decoder.layer.attention.heads"
KV = "decoder.layer.attention.kv_heads"


def ready(page):
    """The page once its sheet is drawn."""
    page.wait_for_selector(".sheet .drawing, .compare .drawing")
    return page


def headline(page, what: str) -> int:
    """The whole number behind a headline."""
    strong = page.locator(".headlines > div", has=page.get_by_text(what, exact=True)).locator("strong")
    return int(float(strong.get_attribute("title").replace(",", "")))


def field(page, path: str):
    return page.locator(f'[data-key="{path}"]')


def give(page, path: str, value: str) -> None:
    field(page, path).fill(value)
    field(page, path).press("Enter")


def gone_to(page, words: str) -> None:
    page.wait_for_function("words => decodeURIComponent(location.hash).includes(words)", arg=words)


def drawn_anew(page) -> None:
    """Wait until the whole answer of the present question is drawn."""
    page.wait_for_function("() => performance.getEntriesByName('drawn').length > 0")


def test_figures_are_those_of_cost(opened):
    page = ready(opened("#of=llama-3-8b&length=8192"))
    sheet = af.cost(af.architecture("llama-3-8b"), length=8192, mode="prefill")
    assert headline(page, "parameters") == sheet.params.total
    assert headline(page, "state per token") == sheet.state_bytes_per_token
    assert headline(page, "weights, bf16") == sheet.weights["bf16"]
    assert page.locator("h1").inner_text() == "llama-3-8b"
    assert page.locator(".drawing [data-part='decoder.layer.attention']").count() >= 1


def test_another_mixer_asks_for_what_it_needs_and_says_what_it_leaves_out(opened):
    page = ready(opened("#of=llama-3-8b&part=decoder.layer.attention"))
    kind = field(page, "kind-decoder.layer.attention")
    kind.select_option(label="mamba2")
    assert page.locator(".needs").get_by_label("head width", exact=True).input_value() == "128"
    page.locator(".needs").get_by_label("state width", exact=True).fill("64")
    page.get_by_role("button", name="put it in").click()
    page.locator(".warning", has_text="kind=mamba2 leaves out what mamba2 has no field for: kv_heads, rotary.").wait_for()
    page.locator("#tool-undo").click()
    page.wait_for_function("() => !location.hash.includes('set=')")
    page.wait_for_selector(".warning", state="detached")
    kind.select_option(label="linear attention")
    page.locator(".needs").get_by_label("feature map", exact=True).select_option("elu plus one")
    page.get_by_role("button", name="put it in").click()
    gone_to(page, "feature_map={kind")
    page.wait_for_selector(".refused", state="detached")


def test_a_changed_value_changes_figures_and_diagram_and_is_taken_back(opened):
    page = ready(opened("#of=llama-3-8b&part=decoder.layer.attention"))
    before, state = headline(page, "parameters"), headline(page, "state per token")
    give(page, KV, "4")
    gone_to(page, f"{KV}=4")
    page.wait_for_selector(".drawing :text('K 4 × 128')")
    changed = af.architecture("llama-3-8b", changes={KV: 4})
    assert headline(page, "parameters") == af.cost(changed, mode="prefill").params.total < before
    assert headline(page, "state per token") == state // 2
    assert page.locator(".moved.less").count() >= 2
    page.locator("#tool-undo").click()
    page.wait_for_selector(".drawing :text('K 8 × 128')")
    assert headline(page, "parameters") == before
    page.locator("#tool-redo").click()
    page.wait_for_selector(".drawing :text('K 4 × 128')")
    page.get_by_label(f"take back {KV}=4").click()
    page.wait_for_selector(".drawing :text('K 8 × 128')")
    assert "set=" not in page.url


def test_a_slot_gets_another_kind_and_says_what_it_needs(opened):
    page = ready(opened("#of=llama-3-8b&part=decoder.layer.attention.mask"))
    page.get_by_label("kind").select_option(label="window")
    needed = page.locator(".needs input")
    needed.wait_for()
    needed.fill("512")
    page.get_by_role("button", name="put it in").click()
    gone_to(page, "mask.kind=window")
    page.wait_for_selector(".drawing :text('causal window 512')")
    windowed = af.architecture("llama-3-8b", changes={"decoder.layer.attention.mask": {"kind": "window", "size": 512}})
    shown = page.locator(".masks figcaption strong").first.inner_text()
    assert "512" in shown
    assert headline(page, "parameters") == af.cost(windowed).params.total


def test_what_is_refused_is_said_at_the_field_and_changes_nothing(refusing):
    page = ready(refusing("#of=llama-3-8b&part=decoder.layer.attention"))
    before = page.url
    give(page, KV, "7")
    said = page.locator(".field.bad .refused")
    said.wait_for()
    assert "kv_heads must divide heads" in said.inner_text()
    assert field(page, KV).input_value() == "7"
    assert field(page, KV).get_attribute("aria-invalid") == "true"
    assert page.url == before
    field(page, KV).press("Escape")
    assert field(page, KV).input_value() == "8"


def test_did_you_mean_is_a_button(refusing):
    page = refusing("#of=lama-3-8b")
    page.get_by_role("button", name="llama-3-8b", exact=True).click()
    assert ready(page).locator("h1").inner_text() == "llama-3-8b"
    other = refusing("#of=llama-3-8b&set=decoder.layer.attention.kv_head%3D4")
    other.get_by_role("button", name="kv_heads", exact=True).click()
    ready(other)
    gone_to(other, f"{KV}=4")


def test_the_call_prices_lengths_batches_and_accelerators(opened):
    page = ready(opened("#of=llama-3-8b"))
    page.get_by_label("tokens", exact=True).fill("32k")
    page.get_by_label("tokens", exact=True).press("Enter")
    gone_to(page, "length=32768")
    page.get_by_label("accelerators").select_option("a100")
    gone_to(page, "on=a100")
    page.wait_for_selector(".speeds :text('A100')")
    sheet = af.cost(af.architecture("llama-3-8b"), length=32768, mode="decode", hardware="a100")
    shown = page.locator(".speeds tbody tr").last.locator("td").nth(1).inner_text()
    assert float(shown.replace(",", "")) == pytest.approx(sheet.time.tokens_per_second, rel=0.01)
    assert page.locator("path.roof").count() == 2


def test_memory_of_training_is_pending_and_then_traced(opened):
    page = ready(opened("#of=smollm-135m&length=512"))
    page.wait_for_selector("section:has(> h3:text-is('memory of training')) svg.chart")
    total = af.cost(af.architecture("smollm-135m"), length=512).memory.total
    note = page.locator("section:has(> h3:text-is('memory of training')) .note[title]").get_attribute("title")
    assert int(re.sub(r"\D", "", note)) == total


def test_masks_at_any_length(opened):
    page = ready(opened("#of=gemma-3-27b"))
    assert page.locator(".masks canvas").count() == 2
    assert page.locator(".masks figcaption small", has_text="of 4k × 4k").count() == 2, "three windows of 1,024 at least"
    slider = page.get_by_label("length of the pictures")
    slider.fill("14")
    page.wait_for_selector(".masks :text('of 16k × 16k')")
    slider.fill("10")
    page.wait_for_selector(".masks :text('of 1k × 1k')")


def test_search_opens_and_shows_beside(opened):
    page = ready(opened("#of=llama-3-8b"))
    page.keyboard.press("/")
    page.keyboard.type("qwen3-8b")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('qwen3-8b')")
    page.keyboard.press("b")
    page.keyboard.type("llama-3-8b")
    page.keyboard.press("Enter")
    page.wait_for_selector(".compare .drawing")
    gone_to(page, "of=llama-3-8b")
    assert page.locator(".drawing .differs").count() > 4
    assert page.locator(".staircase tbody tr").count() > 2
    # Every step of the stairs but the first adds up to the last.
    last = page.locator(".staircase tbody tr").last.locator("td").last.inner_text()
    assert last == page.locator(".costs tbody tr").first.locator("td").last.inner_text().split("\n")[0] or last


def test_the_order_of_two_side_by_side_is_swapped(opened):
    """A base opened beside a variant comes to stand first, by button and by key; the titles say no list of changes."""
    page = ready(opened(f"#of=llama-3-8b&of=llama-3-8b&set=0:{KV}=4"))
    assert page.locator("h1").inner_text() == "llama-3-8b, changed beside llama-3-8b"
    assert "llama-3-8b, changed" in page.locator(".compare .drawing").text_content()
    assert "kv_heads=4" not in page.locator(".compare .drawing").text_content()
    stairs, steps = page.locator(".staircase caption"), page.locator(".staircase tbody tr")
    assert stairs.inner_text() == "llama-3-8b, changed → llama-3-8b"
    assert "4 → 8" in steps.last.inner_text()
    page.get_by_role("button", name="swap the order").click()
    gone_to(page, f"set=1:{KV}=4")
    page.wait_for_selector("caption:text-is('llama-3-8b → llama-3-8b, changed')")
    assert page.locator("h1").inner_text() == "llama-3-8b beside llama-3-8b, changed"
    assert "8 → 4" in steps.last.inner_text()
    page.keyboard.press("x")
    page.wait_for_selector("caption:text-is('llama-3-8b, changed → llama-3-8b')")


@pytest.mark.parametrize(
    ("words", "title", "topic"),
    [
        ("tied embedding", "tied embeddings", "embeddings"),
        ("moe", "mixtures of experts", "experts"),
        ("MTP", "multi-token prediction (MTP)", "objectives"),
    ],
)
def test_search_knows_the_mechanisms_of_the_atlas(opened, words, title, topic):
    page = ready(opened("#of=llama-3-8b"))
    page.keyboard.press("/")
    page.keyboard.type(words)
    page.locator("#found [role=option]", has=page.locator(f"strong:text-is('{title}')")).click()
    page.wait_for_selector(".atlas .topic h1")
    assert page.url.endswith(f"#atlas/topics/{topic}")


def test_search_explains_words_of_the_field(opened):
    explains_words(ready(opened("#of=gpt2")))


def test_search_finds_entries_by_their_mechanisms_in_singular_and_plural(opened):
    expected = [each.name for each in listing() if each.year == 2025 and "local" in each.columns.window]
    page = ready(opened("#of=llama-3-8b"))
    for words in ("sliding windows 2025", "sliding window 2025"):
        page.keyboard.press("/")
        page.keyboard.type(words)
        page.wait_for_selector("#found [role=option]")
        found = page.locator("#found [role=option] strong").all_inner_texts()
        assert found
        assert set(found) <= set(expected), words
        page.keyboard.press("Escape")


def test_forms_to_take_along(opened):
    page = ready(opened("#of=llama-3-8b&set=decoder.layer.attention.kv_heads%3D4"))
    page.keyboard.press("c")
    page.wait_for_selector("dialog pre")
    assert "--set decoder.layer.attention.kv_heads=4" in page.locator("dialog pre").inner_text()
    page.get_by_role("tab", name="TOML").click()
    assert af.architecture("llama-3-8b", changes={KV: 4}).digest == parsed(page.locator("dialog pre").inner_text()).digest
    page.get_by_role("button", name="copy", exact=True).last.click()
    assert "kv_heads = 4" in page.evaluate("navigator.clipboard.readText()")
    page.keyboard.press("Escape")
    assert page.locator("dialog").count() == 0


def test_the_copied_command_gives_the_figures_of_the_page(opened, call):
    page = ready(opened(f"#of=llama-3-8b&set={KV}%3D4&length=2048&batch=4&precision=fp32&on=a100&on=h100&rate=1.5"))
    page.keyboard.press("c")
    command = shlex.split(page.locator("dialog pre").inner_text())
    page.keyboard.press("Escape")
    answer = json.loads(call(*command[1:]).stdout)
    assert headline(page, "state per token") == answer["figures"]["state"]["per_token"]
    speeds = [each["modes"]["decode"]["tokens_per_second"] for each in answer["figures"]["accelerators"]]
    shown = page.locator(".speeds tbody tr", has_text="decoding").all()
    told = [float(row.locator("td").nth(1).inner_text().replace(",", "")) for row in shown]
    assert told == pytest.approx(speeds, rel=0.01)
    assert answer["call"] == {**answer["call"], "length": 2048, "batch": 4, "precision": "fp32", "rate": 1.5}


def test_what_is_copied_side_by_side_prints_the_stairs(opened, call, tmp_path):
    page = ready(opened(f"#of=gpt2&of=gpt2&set=0:{KV}%3D3&set=1:{KV}%3D4&set=1:decoder.order%3Dlayer*6&length=512&batch=2"))
    page.keyboard.press("c")
    kept, differs = page.locator("dialog pre").inner_text().splitlines()
    written, _, name = kept.partition(" > ")
    (tmp_path / name).write_text(call(*shlex.split(written)[1:]).stdout)
    told = call(*shlex.split(differs)[1:], cwd=tmp_path).stdout
    assert told.startswith("From 1.toml to gpt2")
    assert re.search(r"kv heads[a-z ]*: 3\s+->\s+4", told)
    assert "Costs of 2 x 512 tokens" in told
    page.keyboard.press("Escape")


def test_a_page_without_accelerators_is_answered(opened):
    page = ready(opened("#of=gpt2"))
    page.get_by_label("without H100 SXM 80 GB").click()
    gone_to(page, "on=")
    page.wait_for_function("() => !document.querySelector('.speeds')?.checkVisibility()")


def test_a_letter_that_could_mean_two_numbers_is_refused_with_both(refusing):
    page = ready(refusing("#of=llama-3-8b&part=embedding"))
    give(page, "embedding.vocab", "128k")
    gone_to(page, "embedding.vocab=131072")
    page.goto(page.url.split("part=")[0] + "part=decoder.layer.attention.rotary")
    give(page, "decoder.layer.attention.rotary.theta", "500k")
    page.locator(".field.bad .refused", has_text="500k could be 500,000 or, as in --length, 512,000").wait_for()


def parsed(toml: str):
    from anyformer.describe import from_toml
    from anyformer.model import Architecture

    return from_toml(Architecture, toml)


def test_the_keyboard_does_everything(opened):
    page = ready(opened("#of=llama-3-8b"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("d")
    first = page.evaluate("document.activeElement.dataset.part")
    page.keyboard.press("ArrowUp")
    second = page.evaluate("document.activeElement.dataset.part")
    assert first
    assert second
    assert first != second
    page.keyboard.press("Enter")
    gone_to(page, f"part={second}")
    page.keyboard.press("n")
    page.keyboard.press("o")
    page.wait_for_function("() => !location.hash.includes('part=')")
    page.keyboard.press("?")
    page.wait_for_selector("dialog kbd")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.scheme") == "light"
    # Every control has a name, and none is left out of the order of the tabulator.
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, a[href], input, select')].filter(each => each.tabIndex < 0).length"
    )
    assert nameless == 0


def test_answers_are_said_to_screen_readers(opened):
    page = ready(opened("#of=llama-3-8b&part=decoder.layer.attention"))
    give(page, KV, "4")
    gone_to(page, f"{KV}=4")
    page.wait_for_function("() => document.querySelector('#said').textContent.includes('7.9')")
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    # The keyboard stays in the field that was changed.
    assert page.evaluate("document.activeElement.dataset.key") == KV


def test_nothing_is_wider_than_a_phone(opened):
    for hash in ("#of=llama-3-8b&part=decoder.layer.attention", "#of=gemma-3-27b", "#of=llama-3-8b&of=qwen3-8b"):
        page = ready(opened(hash, width=390, height=844))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_paper_shows_figures_without_controls(opened):
    page = ready(opened("#of=llama-3-8b"))
    page.emulate_media(media="print")
    assert not page.locator("header").is_visible()
    assert page.locator(".drawing").is_visible()
    assert page.locator(".headlines").is_visible()


def test_a_server_that_has_ended_is_said(refusing):
    page = ready(refusing("#of=llama-3-8b&part=decoder.layer.attention"))
    page.context.set_offline(True)
    give(page, KV, "4")
    page.wait_for_selector(".field.bad .refused:text('does not answer')")
    page.context.set_offline(False)
    give(page, KV, "2")
    gone_to(page, f"{KV}=2")
