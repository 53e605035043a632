"""A second kind of layer from the page: nothing but changes by path, taken back as one."""

from __future__ import annotations

import pytest
from tests.browser.test_explorer import field, give, gone_to, headline, ready

import anyformer as af

pytestmark = pytest.mark.browser
ORDER = "(local*3 layer)*7"


def added(page, name: str, order: str | None = None):
    page.get_by_text("add a kind of layer", exact=True).click()
    field(page, "layers-name").fill(name)
    if order is not None:
        field(page, "layers-order").fill(order)
    page.get_by_role("button", name="add it").click()
    return page


def test_a_kind_of_layer_is_added_changed_and_taken_back(opened):
    page = ready(opened("#of=qwen3-0.6b&part=decoder"))
    before = headline(page, "state per token")
    added(page, "local")
    gone_to(page, f'decoder.order="{ORDER}"'.replace(" ", "+"))
    page.get_by_role("navigation", name="parts in it").get_by_title("decoder.local", exact=True).wait_for()
    page.goto(page.url.split("part=")[0] + "part=decoder.local.attention.mask")
    page.get_by_label("kind").select_option(label="window")
    page.locator(".needs input").fill("512")
    page.get_by_role("button", name="put it in").click()
    gone_to(page, "decoder.local.attention.mask.kind=window")
    page.wait_for_selector(".drawing :text('causal window 512')")
    turns = {"decoder.local": "layer", "decoder.order": ORDER}
    made = af.architecture("qwen3-0.6b", changes={**turns, "decoder.local.attention.mask": {"kind": "window", "size": 512}})
    assert headline(page, "state per token") == af.cost(made, length=4096, mode="prefill").state_bytes_per_token < before
    page.get_by_label("take back decoder.local=layer").click()
    page.wait_for_function("() => !location.hash.includes('set=')")
    page.wait_for_selector(".drawing :text('causal window 512')", state="detached")
    assert headline(page, "state per token") == before


def test_a_copy_has_what_its_original_was_changed_to_and_keeps_it(opened):
    heads = "decoder.layer.attention.kv_heads"
    page = ready(opened(f"#of=qwen3-0.6b&set={heads}%3D4&part=decoder"))
    added(page, "local", ORDER)
    gone_to(page, "decoder.local.attention.kv_heads=4")
    page.goto(page.url.split("part=")[0] + "part=decoder.layer.attention")
    ready(page)
    give(page, heads, "2")
    gone_to(page, f"{heads}=2")
    changes = {heads: 2, "decoder.local": "layer", "decoder.local.attention.kv_heads": 4, "decoder.order": ORDER}
    total = af.cost(af.architecture("qwen3-0.6b", changes=changes), mode="prefill").params.total
    page.wait_for_function(
        "total => document.querySelector('.headlines strong').title.replaceAll(',', '') === String(total)", arg=total
    )


def test_a_mixer_takes_the_place_of_an_attention(opened):
    page = ready(opened("#of=qwen3-0.6b&set=decoder.mamba%3Dlayer&set=decoder.order%3Dlayer*27+mamba"))
    page.goto(page.url + "&part=decoder.mamba.attention")
    page.get_by_label("kind", exact=True).select_option(label="mamba")
    for name, value in (("channels", "2k"), ("state width", "16"), ("step rank", "64")):
        page.locator(".needs").get_by_label(name, exact=True).fill(value)
    page.get_by_role("button", name="put it in").click()
    page.wait_for_selector(".drawing :text('Mamba')")
    give(page, "decoder.mamba.attention.channels", "1024")
    gone_to(page, "decoder.mamba.attention.channels=1024")
    mixer = {"kind": "mamba", "channels": 1024, "state_width": 16, "step_rank": 64}
    changes = {"decoder.mamba": "layer", "decoder.mamba.attention": mixer, "decoder.order": "layer*27 mamba"}
    total = af.cost(af.architecture("qwen3-0.6b", changes=changes), mode="prefill").params.total
    page.wait_for_function(
        "total => document.querySelector('.headlines strong').title.replaceAll(',', '') === String(total)", arg=total
    )


def test_an_order_without_the_new_kind_is_refused_in_place(refusing):
    page = ready(refusing("#of=qwen3-0.6b&part=decoder"))
    added(page, "local", "layer*28")
    said = page.locator(".adds .refused")
    said.wait_for()
    assert "name them in it" in said.inner_text()
    assert field(page, "layers-name").input_value() == "local"
    assert "set=" not in page.url
    field(page, "layers-order").fill(ORDER)
    page.get_by_role("button", name="add it").click()
    gone_to(page, "decoder.local=layer")
