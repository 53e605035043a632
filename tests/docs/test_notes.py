"""What the page on the notes says of their mistakes, computed: each figure is found on the page."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path

import pytest
import torch

import anyformer as af
from anyformer.catalogue import architecture, listing
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.operations.work import distinct_experts
from anyformer.parts import Attention, Embedding, FanIn, FeedForward, Head, Initialisation, Normal, RMSNorm, Rotary, Window
from anyformer.parts.layers.wiring import pre_norm

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "notes.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.split("## Mistakes of the notes")[1].splitlines() if re.match(r"\| [^s-]|\| step", line)]


def told(*words: str) -> None:
    """Some row of the page has all of these words."""
    assert any(all(word in row for word in words) for row in ROWS), f"no row of docs/reference/notes.md has all of {words}"


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def small(depth: int, width: int = 64):
    block = pre_norm(
        RMSNorm(), Attention(heads=4, place=Rotary()), FeedForward(width=4 * width, activation="gelu", gated=False)
    )
    loud = Initialisation(matrix=FanIn(), embedding=Normal(std=1.0), head=FanIn())
    return decoder_only(Embedding(vocab=50), width, [block] * depth, final_norm=RMSNorm(), head=Head(), initialisation=loud)


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(0, 50, shape, generator=torch.Generator().manual_seed(0))


def test_there_are_about_fifty_rows_of_three_cells():
    assert len(ROWS) > 40
    assert all(len(re.split(r"(?<!\\)\|", row)) == 5 for row in ROWS)


def test_a_matrix_is_the_sum_of_its_rows():
    a = drawn(5, 3)
    outer = [torch.outer(torch.eye(5)[i], a[i]) for i in range(5)]
    torch.testing.assert_close(sum(outer), a)
    assert not torch.equal(sum(outer[:3]), a)
    told("1.2 Row-wise decomposition", "of m terms")


def test_logits_grow_as_the_root_of_the_features():
    x = drawn(1024, 500)
    logits = drawn(200, 1024, seed=1) @ (x / x.square().mean(0).sqrt())
    assert logits.std().item() == pytest.approx(32, rel=0.01)
    told("of 1,024 normalised features", "the deviation is 32")


def test_scores_have_the_variance_of_a_head():
    q, k = drawn(2, 100_000, 64)
    assert (q * k).sum(-1).var().item() == pytest.approx(64, rel=0.02)
    told("4.1 MHA", "the variance is 64")


def test_a_token_adds_its_own_keys_and_values():
    made = architecture("gpt2")
    sheet = af.cost(made, batch=3, length=512, mode="prefill", plan=af.Plan(precision="fp32"))
    assert sheet.state_bytes_per_token == 4 * 12 * 2 * 12 * 64
    told("4.2 MQA", "a token adds 2 B H d_head")


@pytest.mark.parametrize("depth", [1, 2])
def test_what_stays_in_a_moving_window_remembers_what_left(depth):
    """Keys and values that are kept: a window of 8 over 9 tokens. Computed again: the last 8 tokens alone."""
    made, x = small(depth), tokens(1, 9)
    kept = build(af.change(made, "decoder.layer.attention.mask", Window(size=8)), dtype=torch.float64).eval()(x)[:, -1]
    again = build(made, dtype=torch.float64).eval()(x[:, 1:])[:, -1]
    gap, largest = (kept - again).abs().max().item(), again.abs().max().item()
    told("4.3 KV cache", "only in the first layer", "one layer does not")
    if depth == 1:
        assert gap < 1e-5
    else:
        told("4.3 KV cache", f"by {gap:.2f} in logits of up to {largest:.1f}")


def test_the_residual_path_grows():
    model, deviations = build(small(24)).eval(), []
    for layer in model.decoder.layers:
        layer.register_forward_hook(lambda _, __, output: deviations.append(output.std().item()))
    model(tokens(4, 64))
    assert (round(deviations[0], 1), deviations[-1]) == (1.3, pytest.approx(5.0, rel=0.05))
    told("the path itself is never normalised", "from 1.3 to 5.0")


def test_the_mean_of_a_normalised_vector_is_of_its_token():
    y = RMSNorm(gain="none").build(128)(drawn(10_000, 128)).mean(-1)
    assert round(y.std().item(), 3) == 0.088
    assert abs(y.mean().item()) < 0.003
    assert not any(name.endswith("bias") for name in architecture("llama-7b").folded_cost(Shape()).weights)
    told("mu_y is another number for each token", "0.088", "`llama-7b` has none")


def test_formats_have_these_ranges():
    e4m3, e5m2 = torch.finfo(torch.float8_e4m3fn), torch.finfo(torch.float8_e5m2)
    assert (e4m3.smallest_normal, e4m3.max, e5m2.smallest_normal, e5m2.max) == (2**-6, 448, 2**-14, 57_344)
    for dtype, smallest in ((torch.float8_e4m3fn, 2**-9), (torch.float8_e5m2, 2**-16)):
        assert torch.tensor([smallest, smallest / 4]).to(dtype).float().tolist() == [smallest, 0]
    told("2^-6 = 1.56e-2 and 2^-14 = 6.10e-5", "2^-9 and 2^-16", "448 and 57,344")


def test_tf32_is_asked_for():
    assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cudnn.allow_tf32
    told("allow_tf32", "is False")


def test_slopes_of_activations_leave_0_to_1():
    for name, (low, high) in {"silu": (-0.100, 1.100), "gelu": (-0.129, 1.129)}.items():
        x = torch.linspace(-8, 8, 400_001, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(getattr(torch.nn.functional, name)(x).sum(), x)
        assert (round(slope.min().item(), 3), round(slope.max().item(), 3)) == (low, high)
        if name == "silu":
            turn = x[slope > 0][0].item()
            assert round(turn, 3) == -1.278
    told("its slope is 0 at -1.278")
    told("between -0.100 and 1.100", "between -0.129 and 1.129")


def network_share(name: str) -> float:
    params = af.cost(architecture(name), length=64, source_length=64).params
    networks = sum(n for part, n in params.by_component.items() if "feedforward" in part or "experts" in part)
    return networks / params.total


def test_networks_hold_more_of_large_models():
    named = {"llama-7b": 64, "gpt3-175b": 66, "llama-2-70b": 82, "gpt2": 46}
    assert {name: round(100 * network_share(name)) for name in named} == named
    told(*(f"`{name}` {share} %" for name, share in named.items()))
    large = [entry.name for entry in listing() if entry.columns.parameters >= 5e9]
    middle = 100 * statistics.median(map(network_share, large))
    told(f"the median share is {middle:.0f} %")
    made = architecture("llama-7b")
    wide = made.decoder.variants["layer"].branches["feedforward"].sublayer.width / made.width
    assert f"{wide:.2f} times in `llama-7b`" in PAGE


def test_a_capacity_without_k_drops_choices():
    experts, tokens_, k, alpha = 64, 32_768, 2, 1.25
    rows = torch.rand(tokens_, experts, generator=torch.Generator().manual_seed(0)).topk(k).indices
    load = torch.bincount(rows.flatten(), minlength=experts)
    capacity = alpha * tokens_ / experts
    assert ((load - capacity).clamp(min=0).sum() / (k * tokens_)).item() == pytest.approx(0.375, abs=1e-3)
    assert ((load - k * capacity).clamp(min=0).sum()).item() == 0
    told("alpha k B L / E", "37.5 %")


def test_rms_norm_without_the_mean_is_small():
    x = drawn(1000, 128)
    y = x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    assert round(y.square().mean(-1).sqrt().mean().item(), 3) == 0.088
    told("2.2 RMSNorm", "d^-1/2, 0.088 at 128")


def test_intensity_grows_with_the_batch():
    n, d, h = 1024, 4096, 32
    shown = [1 / (1 / (b * n) + h / d) for b in (1, 64)]
    assert [round(each) for each in shown] == [114, 128]
    exact = [(8 * b * n * d**2 + 4 * b * n**2 * d) / (b * n * d + b * h * n**2 + d**2) for b in (1, 64)]
    assert exact[0] < exact[1]
    told("the inverse of that sum", "from 114 for one sequence to 128 for 64")


def test_wavelengths():
    assert f"{2 * math.pi * 10_000 ** (510 / 512):,.0f}" == "60,611"
    told("60,611 at d = 512")


def test_a_batch_reads_almost_all_experts():
    assert (distinct_experts(8, 2, 1), round(distinct_experts(8, 2, 16), 1)) == (2, 7.9)
    told("3.2 MoE", "reads 7.9 of them")


def test_gpt3_has_no_gate():
    h, layers = 12_288, 96
    with_gate, without = (layers * (4 * h * h + matrices * 4 * h * h) / 1e9 for matrices in (3, 2))
    assert af.cost(architecture("gpt3-175b")).params.total / 1e9 == pytest.approx(without, rel=0.01)
    told(f"{with_gate:.0f} B", f"{without:.0f} B")


def test_flops_grow_with_the_parameters():
    each = [
        (sheet := af.cost(architecture(f"pythia-{size}"), length=2048, mode="train")).flops.total.exact
        / 2048
        / sheet.params.total
        for size in ("410m", "1.4b", "2.8b", "6.9b", "12b")
    ]
    assert (round(min(each), 1), round(max(each), 1)) == (6.0, 6.1)
    told("6.0 to 6.1 for each parameter")


def test_scores_and_mixing_grow_with_the_square_of_the_length():
    shares = []
    for length in (512, 32_768):
        flops = architecture("llama-7b").folded_cost(Shape(length=length)).flops
        between = sum(f.dense for name, f in flops.items() if name.endswith(("scores", "mix")))
        shares.append(round(100 * between / sum(f.dense for f in flops.values())))
    told(f"{shares[0]} % of `llama-7b` at 512 tokens, {shares[1]} % at 32,768")


def test_products_with_keys_and_values_cost_the_same():
    flops = architecture("llama-7b").folded_cost(Shape(length=100)).flops
    scores, mix = (next(f for name, f in flops.items() if name.endswith(end)) for end in ("scores", "mix"))
    assert scores == mix
    told("2.3 Sparse attention", "costs as much")


def test_systems_that_stand_in_are_said_to():
    entries = {entry.name: entry for entry in listing()}
    for name in ("anthropic-lm-52b", "lamda-137b", "gopher-280b", "chinchilla-70b"):
        assert entries[name].stand_in
        assert f"`{name}`" in PAGE
    for name in ("palm-540b", "gopher-280b"):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))
        assert "| open. " in row, "nothing published decides it"
    assert architecture("gpt2").encoder is None
    assert architecture("llama-7b").encoder is None
