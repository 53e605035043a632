"""Memory, bytes sent and stages under layouts, against published figures, brute force and sums over the ranks."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from itertools import product

import pytest

from anyformer.catalogue import architecture, listing
from anyformer.costs.activations import activations
from anyformer.costs.memory import States
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning import advice
from anyformer.planning.dealing import stages
from anyformer.planning.divided import SavedBytes
from anyformer.planning.layout import Layout, bounds, problems
from anyformer.planning.partition import partition
from anyformer.planning.planner import _with_experts, plan_training, price_layout
from anyformer.planning.rank import stage_memory
from anyformer.planning.stages import row_of
from anyformer.planning.step import sent
from anyformer.planning.tuned import choices
from covering import rest_slow

BF16 = Plan(precision="bf16")
ZERO = States(gradients=2)
"""Gradients are in bf16 there; with the copy of the weights in bf16, 16 bytes per parameter."""


def zero_row(name, length):
    return replace(row_of(architecture(name), length, BF16), states=ZERO)


def test_states_are_those_of_the_zero_paper():
    """7.5 B parameters on 64 ranks: 120 GB; 31.4, 16.6, 1.9 GB with each stage (Rajbhandari et al. 2019, figure 1)."""
    row = zero_row("llama-7b", 1024)
    (stage,) = stages(row, 1, 1)
    scale = 7.5e9 / (stage.parameters.divided + stage.parameters.replicated) / 1e9
    figures = []
    largest = stage.largest.divided + stage.largest.replicated
    for sharded in ("optimiser", "gradients", "weights"):
        each = stage_memory(row, stage, Layout(fsdp=64, sharded=sharded))
        # What is gathered for a moment stands apart from what stays.
        gathered = 2 * row.element * largest if sharded == "weights" else 0
        figures.append(round((each.weights + each.copies - gathered + each.gradients + each.optimiser) * scale, 1))
    alone = stage_memory(row, stage, Layout())
    assert round((alone.weights + alone.copies + alone.gradients + alone.optimiser) * scale, 1) == 120.0
    assert figures == [31.4, 16.6, 1.9]


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_experts_are_divided_by_their_own_share_of_the_ranks(ep):
    """By ep and then by the ranks that hold the same experts; all else by every rank of the sharding."""
    model = architecture("mixtral-8x7b")
    (stage,) = stages(row_of(model, 1024, BF16), 1, 1)
    weights = model.cost(Shape()).weights.values()
    experts = sum(weight.count for weight in weights if weight.role == "expert")
    dense = sum(weight.count for weight in weights) - experts
    each = stage_memory(zero_row("mixtral-8x7b", 1024), stage, Layout(fsdp=8, ep=ep, sharded="weights"))
    assert each.optimiser / 8 == pytest.approx(dense / 8 + experts / ep / (8 / ep))
    assert each.weights / 4 == pytest.approx(dense / 8 + experts / 8)


def test_sharding_sends_what_the_zero_paper_says():
    """2 and 3 times the parameters for stages 2 and 3, as n grows (Rajbhandari et al. 2019, section 7); data parallelism 2."""
    row = zero_row("llama-7b", 1024)
    (stage,) = stages(row, 1, 1)
    size = 2 * (stage.parameters.divided + stage.parameters.replicated)
    for sharded, times in (("optimiser", 2), ("gradients", 2), ("weights", 3)):
        traffic = sent(row, stage, Layout(fsdp=1024, sharded=sharded), 8)
        assert (traffic.weights + traffic.gradients) / size == pytest.approx(times, rel=2e-3)
    plain = sent(row, stage, Layout(dp=1024), 8)
    assert plain.gradients / size == pytest.approx(2, rel=2e-3)


def test_tensor_parallelism_sends_what_megatron_says():
    """8 b s h (t - 1) / t elements per layer and micro-batch (Narayanan et al. 2021, section 3.2), half more if recomputed."""
    row = zero_row("llama-7b", 1024)
    (stage,) = stages(row, 1, 1)
    layout = Layout(tp=8, sp=False, micro_batch=2, micro_batches=3)
    elements = 8 * 2 * 1024 * 4096 * 7 // 8
    around = elements // 2  # the embedding's sum forward and that of the head's gradient backward
    assert sent(row, stage, layout, 8).tensor == 3 * 2 * (32 * elements + around)
    again = sent(row, stage, replace(layout, checkpointing="full"), 8).tensor
    assert again - sent(row, stage, layout, 8).tensor == 3 * 2 * 32 * elements // 2


def test_parallel_branches_are_summed_once():
    row = zero_row("palm-8b", 1024)
    assert [unit.sums for unit in row.units[1:-1]] == [2] * 32


@pytest.mark.parametrize("name", ["pythia-160m", "llama-3-8b", "mixtral-8x7b", "qwen3-0.6b"])
def test_what_layers_keep_is_what_is_traced(name):
    """Together they are to the byte what autograd keeps (tests/costs holds that against PyTorch)."""
    arch, shape = architecture(name), Shape(batch=1, length=512)
    row = row_of(arch, 512, BF16)
    logits, sums = 2 * arch.outputs * 512, []
    for how in ("none", "selective", "full"):
        exact = activations(arch, shape, BF16.but(attention="sdpa", checkpointing=how))
        sums.append(sum(unit.saved[how].bytes for unit in row.units))
        assert sums[-1] - logits == exact.saved
        (stage,) = stages(row, 1, 1)
        layers = (sum(tensor.bytes for tensor in layer if not tensor.copies) for layer in exact.recomputed.values())
        assert stage.recomputed[how].bytes == max(layers, default=0)
    assert sums == sorted(sums, reverse=True)


def test_tensor_parallelism_divides_what_lies_between_column_and_row():
    """Of a layer of Llama 3 8B, by hand, in numbers of 2 bytes per token: queries, keys, values, what attention gives, and four
    as wide as the feed-forward network; log Z in fp32. As wide as the stream: of two norms each its input in fp32, what it
    gives before and after its gain, the deviation in fp32 (and the gain's copy, once)."""
    unit = row_of(architecture("llama-3-8b"), 1024, BF16).units[2]
    D, F, KV, H = 4096, 14336, 1024, 32
    assert unit.saved["none"].divided == 1024 * (2 * (D + KV + KV + D + 4 * F) + 4 * H)
    assert unit.saved["none"].whole == 1024 * 2 * (4 * D + 2 * D + 2 * D + 4) + 2 * 2 * D
    assert unit.saved["selective"] == SavedBytes(divided=1024 * (2 * (D + 2 * KV + D + 2 * F) + 4 * H), whole=1024 * 2 * 3 * D)
    for sp, whole in ((False, unit.saved["none"].whole), (True, unit.saved["none"].whole // 8)):
        assert unit.saved["none"].on(3, 8, sp=sp) == 3 * (unit.saved["none"].divided // 8 + whole)


def test_experts_keep_whole_what_tokens_bring_them():
    """Of Mixtral: two experts' inputs, gates, products and outputs of each token, none of it divided by tp."""
    mixtral, dense = (row_of(architecture(name), 1024, BF16).units[2].saved["none"] for name in ("mixtral-8x7b", "llama-3-8b"))
    assert dense.divided - mixtral.divided == 1024 * 2 * 4 * 14336
    assert mixtral.whole - dense.whole > 1024 * 2 * 2 * (4 * 14336 + 4096)


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "t5-small", "gpt2", "albert-base-v2", "switch-base-8"])
@pytest.mark.parametrize("pp", [1, 2, 4])
def test_the_ranks_together_hold_every_weight_once(name, pp):
    """Summed over stages, experts and tensor ranks; tables that two stages share are stored by both."""
    arch = architecture(name)
    row = row_of(arch, 256, BF16)
    tally = arch.trained_cost(Shape(batch=1, length=256, source=256 if arch.two_inputs else 0), BF16)
    held = [stage for first, stage in _each_stage(row, pp)]
    total = sum(each.total for each in held)
    twice = total - tally.parameters
    tied = arch.head is not None and arch.head.tied
    table = sum(weight.count for path, weight in tally.weights.items() if path.startswith("embedding."))
    layer = sum(weight.count for path, weight in tally.weights.items() if ".layers.0." in path)
    assert twice == (pp > 1 and tied) * table + (name.startswith("albert")) * (pp - 1) * layer
    assert sum(unit.flops for unit in row.units) == tally.total_flops.exact


def _each_stage(row, pp):
    """Every stage, for `stages` names equal ones once: at the first of them."""
    found = stages(row, pp, 1)
    for number in range(pp):
        yield number, max((each for each in found if each.first <= number), key=lambda each: each.first).parameters


def test_stages_are_partition_as_evenly_as_can_be():
    for work in ([3, 1, 4, 1, 5, 9, 2, 6], [0, 5, 5, 5, 5, 2], [1] * 7, [0, 0, 7, 1]):
        for parts in range(1, len(work) + 1):
            ends = partition(work, parts)
            cuts = [0, *ends]
            assert len(ends) == parts
            assert ends[-1] == len(work)
            assert all(low < high for low, high in itertools.pairwise(cuts))
            best = min(
                max(sum(work[low:high]) for low, high in itertools.pairwise((0, *inner, len(work))))
                for inner in itertools.combinations(range(1, len(work)), parts - 1)
            )
            assert max(sum(work[low:high]) for low, high in itertools.pairwise(cuts)) == best


@pytest.mark.parametrize(
    ("name", "layout", "says"),
    [
        ("llama-3-8b", Layout(tp=3), "tp = 3 does not divide 8 heads"),
        ("starcoder", Layout(tp=64), "tp = 64 does not divide 48 heads"),
        ("llama-3-8b", Layout(pp=64), "needs as many layers, and there are 32"),
        ("llama-3-8b", Layout(ep=2, fsdp=2), "there are no experts"),
        ("mixtral-8x7b", Layout(ep=16, fsdp=16), "does not divide 8 experts"),
        ("mixtral-8x7b", Layout(ep=8, fsdp=4), "does not fit"),
        ("mixtral-8x7b", Layout(tp=2, sp=False), "needs sp"),
        ("llama-3-8b", Layout(pp=4, chunks=2, micro_batches=6), "divide the micro-batches"),
    ],
)
def test_impossible_layouts_are_refused_with_the_reason(name, layout, says):
    assert any(says in problem for problem in problems(layout, bounds(architecture(name)), 4096))
    with pytest.raises(UserError, match=says):
        price_layout(architecture(name), layout, length=4096)


def test_experts_are_divided_by_ep_and_cost_two_all_to_all_each_way():
    row = zero_row("mixtral-8x7b", 1024)
    (stage,) = stages(row, 1, 1)
    layout = Layout(fsdp=8, ep=8, dispatcher="by_expert")
    dense = stage.parameters.divided + stage.parameters.replicated
    each = stage_memory(row, stage, replace(layout, sharded="optimiser"))
    assert each.copies == 2 * (dense + stage.parameters.experts // 8)
    assert each.weights == 4 * (-(-dense // 8) + stage.parameters.experts // 8), "in fp32, divided"
    assert sent(row, stage, layout, 8).experts == 32 * 4 * (1024 * 2 * 4096 * 2) * 7 // 8


def test_the_405b_is_laid_out_as_its_authors_did():
    """tp 8, pp 16, 128 replicas for 16 M tokens on 16,384 H100 (Llama 3, arXiv 2407.21783, table 4), in seconds."""
    planned = plan_training(architecture("llama-3.1-405b"), ranks=16384, batch_tokens=2**24, length=8192, hardware="h100")
    best = planned.fastest[0].layout
    assert (best.tp, best.pp, best.replicas) == (8, 16, 128)
    assert all(each.fits and each.layout.ranks == 16384 and each.tokens == 2**24 for each in planned.fastest)


def test_what_cannot_fit_says_why():
    planned = plan_training(architecture("llama-3-70b"), ranks=8, batch_tokens=2**20, length=8192)
    assert not planned.fastest
    assert "GB of optimiser state" in planned.too_large[0].why_not
    with pytest.raises(UserError, match="holds no sequence"):
        plan_training(architecture("llama-3-8b"), ranks=8, batch_tokens=4096, length=8192)
    with pytest.raises(UserError, match="did you mean"):
        plan_training(architecture("llama-3-8b"), ranks=8, batch_tokens=2**20, length=8192, hardware="h10")


PLANNED = [entry.name for entry in listing()][::24]


@pytest.mark.parametrize(
    ("name", "ranks"), rest_slow(product(PLANNED, (4, 16)), [*product(PLANNED[::6], (4,)), (PLANNED[6], 16)])
)
def test_any_architecture_can_be_planned(name, ranks):
    arch = architecture(name)
    length = min([512, *(stack.max_length for stack in arch.stacks.values() if stack.max_length)])
    planned = plan_training(arch, ranks=ranks, batch_tokens=64 * length, length=length)
    assert planned.fastest or planned.too_large
    json.dumps([each.why_not for each in planned.too_large])
    for each in planned.fastest:
        assert each.fits
        assert 0 < each.mfu <= each.machine.hardware.efficiency.matrix * 1.001


def test_layers_that_are_alike_are_priced_alike():
    """Also where one stores the weights of all (ALBERT), and where the first makes what all of them read (rotary tables)."""
    for name in ("albert-base-v2", "llama-3-8b"):
        layers = row_of(architecture(name), 512, BF16).units[1:-1]
        assert len({(each.flops, each.kernels) for each in layers}) == 1
        assert len({(each.saved["none"].divided, each.saved["selective"].divided) for each in layers}) == 1


def test_layouts_that_are_not_possible_are_counted_by_reason():
    planned = plan_training(architecture("llama-3-8b"), ranks=3, batch_tokens=3 * 1024, length=1024)
    assert planned.impossible == {"tp = 3 does not divide 8 heads": 1}


@pytest.mark.parametrize(("fsdp", "tp"), [(8, 1), (2, 2), (6, 1), (1, 1)])
def test_experts_are_divided_in_every_possible_way(fsdp, tp):
    sizes, base = bounds(architecture("mixtral-8x7b")), Layout(dp=2, fsdp=fsdp, tp=tp)
    possible = [each for ep in range(1, 20) if not problems(each := replace(base, ep=ep), sizes, 1024)]
    assert list(_with_experts(base, sizes)) == possible
    assert len(possible) > 1


def test_advice_is_about_the_layout_nearest_to_fitting(monkeypatch):
    monkeypatch.setattr(advice, "_fits", lambda *given: False)
    arch = architecture("llama-3-70b")
    planned = plan_training(arch, ranks=2, batch_tokens=2048, length=1024)
    found = advice.advise(arch, planned, Plan())
    assert len(planned.too_large) > 1
    assert found.nearest.memory.total == min(each.memory.total for each in planned.too_large)


def test_fine_tuning_recomputes_only_where_that_is_what_fits():
    on, arch = hardware_of("h100"), architecture("gpt2")
    few, many = (next(choices(arch, hardware=on, batch=n, length=1024, rank=8, plan=BF16)) for n in (8, 192))
    assert (few.checkpointing, many.checkpointing) == ("none", "full")
    assert few.fits
    assert many.fits
    assert few.largest < 192 <= many.largest == many.largest_recomputed


def test_fewer_sequences_than_accelerators_are_shared_by_ranks_that_divide_the_model():
    """Two sequences on four: no four replicas, but two of two ranks each, or one of four."""
    planned = plan_training(architecture("gpt2"), ranks=4, batch_tokens=2 * 1024, length=1024, show=50)
    meshes = {(each.layout.tp, each.layout.pp) for each in (*planned.fastest, *planned.too_large)}
    assert meshes == {(1, 2), (1, 4), (2, 1), (2, 2), (4, 1)}


def test_numbers_that_are_easily_swapped_are_given_by_name():
    with pytest.raises(TypeError, match="positional argument"):
        plan_training(architecture("gpt2"), 4, 2 * 1024, 1024)
