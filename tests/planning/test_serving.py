"""Serving by hand: caches, the fewest accelerators, time per token, and what a million tokens cost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.plan import Plan
from anyformer.planning import links
from anyformer.planning.dealing import stages
from anyformer.planning.layout import Layout
from anyformer.planning.serving import LayoutSearch, serve

H100 = hardware_of("h100")
BF16 = Plan(precision="bf16")
LONG = 131_072


def said(*arguments):
    result = CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "1000"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(("name", "per_token"), [("deepseek-v3", 70_272), ("llama-3-70b", 327_680), ("llama-3-8b", 131_072)])
def test_the_cache_of_many_users(name, per_token):
    """61 layers x (512 + 64) x 2 bytes; 80 layers x 2 x 8 heads x 128 x 2 bytes; 32 layers of the same. 8 of each position."""
    found = serve(af.architecture(name), users=32, length=LONG)
    assert found.cache.per_token == per_token
    assert found.cache.total == 32 * LONG * (per_token + 8)
    assert found.fullest <= H100.usable_memory


def test_one_device_takes_as_long_as_its_cost_sheet_says():
    """One figure for one question."""
    made = af.architecture("llama-3-8b")
    found = serve(made, users=4, length=8192)
    assert found.layout == Layout()
    assert found.step == pytest.approx(af.cost(made, mode="decode", batch=4, length=8192, hardware="h100").time.seconds)
    assert found.prefill == pytest.approx(af.cost(made, mode="prefill", length=8192, hardware="h100").time.seconds)
    assert found.fullest == pytest.approx(found.weights + found.cache.total, rel=1e-3)
    assert found.sending == 0


def test_the_fewest_that_hold_it():
    made = af.architecture("llama-3-70b")
    # 141.1 GB of weights and 21.5 GB of cache, where 78.1 GB are free on each
    with pytest.raises(UserError, match=r"141.1 GB of weights and 21.48 GB of cache do not fit on 2 H100.*--gpus 3 or more"):
        serve(made, users=8, length=8192, accelerators=2)
    few, more = (serve(made, users=8, length=8192, accelerators=count) for count in (3, 8))
    assert few.least == more.least == 3
    assert more.layout == Layout(tp=8)
    assert more.step < few.step / 2
    assert 0 < more.sending < more.step / 4
    fewer_bits = serve(made, users=8, length=8192, format="int4")
    assert fewer_bits.least == 1


def test_the_count_is_the_one_that_is_cheapest():
    """Of DeepSeek V3 the fewest, 24, are divided by stages alone, and idle most of the time."""
    made = af.architecture("deepseek-v3")
    prices = {count: serve(made, users=32, length=LONG, accelerators=count).price(2.0) for count in (24, 32, 40)}
    found = serve(made, users=32, length=LONG)
    assert (found.least, found.layout.ranks) == (24, 32)
    assert found.price(2.0) == min(prices.values()) < prices[24] / 1.5
    assert found.price(2.0) < prices[40]


def test_a_count_that_divides_nothing_is_told_from_one_that_is_too_small():
    made = af.architecture("deepseek-v3")
    with pytest.raises(UserError, match=r"no layout that divides the model among 25 H100 SXM 80 GB fits: use 24 or 32"):
        serve(made, users=32, length=LONG, accelerators=25)
    with pytest.raises(UserError, match=r"1.342 TB of weights and 294.8 GB of cache do not fit on 4 H100.*--gpus 24 or more"):
        serve(made, users=32, length=LONG, accelerators=4)


def test_price_is_hours_of_accelerators():
    found = serve(af.architecture("llama-3-70b"), users=8, length=8192)
    seconds = 1e6 / found.tokens_per_second
    assert found.price(2.5) == pytest.approx(found.layout.ranks * 2.5 * seconds / 3600)
    assert found.prompt_price(2.5) < found.price(2.5) / 10, "prompts are read side by side"


def test_key_heads_are_divided_and_a_latent_is_on_every_rank():
    heads, latent = (
        LayoutSearch(af.architecture(name), 32, LONG, H100, "bf16", BF16) for name in ("llama-3-70b", "deepseek-v3")
    )
    for search, share in ((heads, 8), (latent, 1)):
        (stage,) = stages(search.row, 1, 1)
        caches = 32 * sum(state.held for states in search.per_user.values() for state in states)
        assert search.fullest(Layout(tp=8)) == pytest.approx(
            2 * (stage.parameters.dense(8) + stage.parameters.experts) + caches / share, rel=1e-6
        )
        assert search.fullest(Layout()) == pytest.approx(search.weights + caches, rel=1e-6)
    experts = search.fullest(Layout(dp=8, ep=8))
    assert experts < search.fullest(Layout()) / 4, "users and experts are divided, attention is not"


def test_what_generates_nothing_is_not_served():
    with pytest.raises(UserError, match="bert-base-uncased: generates no tokens, so there is nothing to serve"):
        said("bert-base-uncased", "--serve")


def test_which_is_cheaper_is_the_first_line():
    lines = said("deepseek-v3", "llama-3-70b", "--serve", "--length", "128k", "--users", "32", "--rate", "2.5").splitlines()
    ours, theirs = (serve(af.architecture(name), users=32, length=LONG).price(2.5) for name in ("llama-3-70b", "deepseek-v3"))
    assert lines[0] == (
        f"Cheaper to serve: llama-3-70b, ${ours:,.2f} per million generated tokens on 24 H100; deepseek-v3 costs "
        f"${theirs:,.2f} on 32 H100, {theirs / ours:,.2f} times as much"
    )
    reached = H100.but(efficiency=replace(H100.efficiency, attention=H100.efficiency.matrix))
    newer = [
        serve(af.architecture(name), users=32, length=LONG, hardware=reached).price(1)
        for name in ("llama-3-70b", "deepseek-v3")
    ]
    assert f"attention at {H100.efficiency.attention:.0%} of the peak" in lines[1]
    assert lines[1].endswith(
        f"with newer kernels ({H100.efficiency.matrix:.0%}) the factor would be {newer[1] / newer[0]:,.2f}"
    )
    assert "cache of 32 users with 131,072 tokens each: 294.8 GB in bf16 (70,272 bytes per token)" in "\n".join(lines[:6])
    assert [line.split(":")[0] for line in lines[2:6:2]] == ["deepseek-v3", "llama-3-70b"], "as in the table"
    assert lines[6] == "at $2.50 per accelerator-hour"
    assumed = said("gpt2", "--serve")
    assert "cache of 1 user with" in assumed
    small = "weights are counted in bf16, 248.9 MB; where it is released or served in fp8, --weights fp8 counts 163.9 MB"
    assert assumed.splitlines()[-1].startswith(f"gpt2: {small}")
    assert small not in said("gpt2", "--serve", "--weights", "fp8")
    assert "$2.00 per accelerator-hour (assumed: give yours with --rate)" in assumed
    (found,) = json.loads(said("gpt2", "--serve", "--json"))
    assert found["length"] == 1024
    assert found["cache"]["per_token"] == 12 * 2 * 768 * 2


def test_stages_pass_on_the_stream_that_tp_ranks_divide():
    """Of Llama 3 70B 8,192 numbers of 2 bytes for a token, once between two stages."""
    search = LayoutSearch(af.architecture("llama-3-70b"), 8, 8192, H100, "bf16", BF16)
    across = 1000 * 8192 * 2 / 4 / (H100.link * H100.efficiency.network) + links.HOP
    one, two = (search.rank.sending(Layout(tp=4, pp=pp), 1000) for pp in (1, 2))
    assert two - one == pytest.approx(across)


def test_every_stage_of_every_replica_reads_a_prompt():
    found = serve(af.architecture("llama-3-8b"), users=4, length=1000)
    many = replace(found, layout=replace(found.layout, dp=3, pp=2), prefill=0.5)
    assert many.prompt_tokens_per_second == pytest.approx(3 * 2 * 1000 / 0.5)


def test_of_equal_prices_none_is_cheaper():
    lines = said("phi-1", "phi-1.5", "--serve", "--length", "4k").splitlines()
    price = serve(af.architecture("phi-1"), users=1, length=4096).price(2)
    assert lines[0] == f"Equal to serve: phi-1 and phi-1.5, each ${price:,.2f} per million generated tokens on 1 H100"
