"""Changes that keep the function: equal logits before and after, for whatever architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from zoo import ZOO

import anyformer as af
from anyformer.describe import DescriptionError
from anyformer.model import Architecture
from anyformer.parts.layers.order import parse_order
from anyformer.transforming import TransformChoices, TransformError, transform
from transforming.changed import apart, tiny, trained

NETWORK = "decoder.layer.feedforward.sublayer"
ATTENTION = "decoder.layer.attention.sublayer"
THETA = 10_000.0


def visited(node: Any, visit: Callable[[dict[str, Any]], None]) -> None:
    """Call `visit` with every table of plain data."""
    if isinstance(node, dict):
        visit(node)
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list | tuple) else ():
        visited(each, visit)


def deeper(table: dict[str, Any]) -> None:
    if "order" in table:
        table["order"] = f"{table['order']} {parse_order(table['order'])[-1]}"


def more_key_heads(table: dict[str, Any]) -> None:
    if table.get("kv_heads") and "heads" in table:  # a mixture of attention heads has experts of them instead
        table["kv_heads"] = table["heads"]


def wider(table: dict[str, Any]) -> None:
    if table.get("kind") in ("feedforward", "experts") or "activation" in table.get("feedforward", {}):
        network = table.get("feedforward", table)
        network["width"] *= 2


def more_tokens(table: dict[str, Any]) -> None:
    if "vocab" in table:
        table["vocab"] += 3


CHANGES = (deeper, more_key_heads, wider, more_tokens)
FEW = [
    "llama", "gpt2", "post_norm", "local_global", "shared_keys", "shared_layers", "differential_window", "streams",
    "experts_longcat", "activation_prelu", "feed_sub_norm", "encoder_dual", "sandwich", "grouped_projections", "shared_aside",
]  # fmt: skip
NAMES = [pytest.param(name, marks=[] if name in FEW else pytest.mark.slow) for name in ZOO]


@pytest.mark.parametrize("name", NAMES)
def test_what_grows_computes_the_same_or_is_refused(name):
    model = trained(ZOO[name])
    for change in CHANGES:
        data = ZOO[name].plain()
        visited(data, change)
        try:
            new = Architecture.parse(data)
            made, _ = transform(model, new)
        except (DescriptionError, TransformError):  # no architecture, or refused
            continue
        assert apart(model, made) < 1e-5, change.__name__


def exactly(old: Architecture, changes: dict[str, object], choices: TransformChoices | None = None):
    """The model after a change that should keep its function, and the report."""
    model = trained(old)
    made, report = af.transform(model, af.architecture(old, changes=changes), choices)
    assert apart(model, made) < 1e-6
    assert report.logits_error < 1e-6
    assert not report.parameters("approximated")
    return made, report


def test_equal_heads_pool_to_grouped_query_attention():
    """Multi-head attention whose heads are equal in groups is grouped-query attention."""
    few = trained(tiny("llama-3-8b"))
    many, report = af.transform(few, tiny("llama-3-8b", decoder__layer__attention__kv_heads=4))
    assert {line.fate for line in report.lines} == {"kept", "copied"}
    back, report = af.transform(many, few.architecture)
    assert {line.fate for line in report.lines} == {"kept"}
    for name, parameter in few.named_parameters():
        assert torch.equal(parameter, back.get_parameter(name)), name


@pytest.mark.parametrize(
    "router", [{"renormalise": {"eps": 0.0}}, {"over": "chosen"}, {"score": "sigmoid", "renormalise": {"eps": 0.0}}], ids=str
)
@pytest.mark.parametrize("shared", [None, {"feedforward": {"width": 16}}, {"feedforward": {"width": 5}, "gate": "sigmoid"}])
def test_experts_that_are_copies_of_the_network_are_the_network(router, shared):
    experts = {"kind": "experts", "experts": 4, "chosen": 2, "width": 16, "router": router}
    made, report = exactly(tiny("llama-3-8b"), {NETWORK: experts | ({} if shared is None else {"shared": shared})})
    stacked = made.decoder.layers[0].feedforward.sublayer.up
    assert stacked.shape[0] == 4
    assert torch.equal(stacked[0], stacked[3])
    assert report.parameters("new") > 0, "the router"


def test_experts_of_a_network_with_biases():
    experts = {"kind": "experts", "experts": 4, "chosen": 2, "width": 16, "router": {"over": "chosen"}, "gated": False}
    exactly(tiny("gpt2"), {NETWORK: {**experts, "bias": ["up", "down"], "activation": "gelu_tanh"}})


def test_a_branch_of_another_name_is_found():
    """Mixtral calls experts what Llama calls feedforward."""
    old = tiny("llama-2-7b", decoder__layer__attention__kv_heads=2)
    theirs = tiny("mixtral-8x7b").plain()
    new = old.plain()
    new["decoder"]["variants"]["layer"]["steps"][1] = theirs["decoder"]["variants"]["layer"]["steps"][1]
    new["decoder"]["variants"]["layer"]["steps"][1]["branches"]["experts"]["sublayer"]["width"] = 16
    model = trained(old)
    made, _ = transform(model, Architecture.parse(new))
    assert apart(model, made) < 1e-6


@pytest.mark.parametrize("grow", ["silent", "copied"])
def test_only_silent_layers_keep_the_function(grow):
    model = trained(tiny("llama-3-8b"))
    made, report = transform(model, tiny("llama-3-8b", decoder__order="layer*4"), TransformChoices(grow=grow))
    assert (apart(model, made) < 1e-6) == (grow == "silent")
    assert report.layers == {"decoder": (0, 0, 1, 1)}
    copy, original = (made.decoder.layers[i].attention.sublayer for i in (1, 0))
    assert torch.equal(copy.query.weight, original.query.weight)
    assert (copy.output.weight.abs().sum() == 0) == (grow == "silent")
    assert copy.query.weight.data_ptr() != original.query.weight.data_ptr(), "the two are trained apart"


def test_silent_layers_learn():
    """The weights that are 0 take a gradient, so that the layer is not dead."""
    made, _ = transform(trained(tiny("llama-3-8b")), tiny("llama-3-8b", decoder__order="layer*3"))
    made.train()(torch.arange(20)[None]).square().sum().backward()
    added = made.decoder.layers[2]
    for weight in (added.attention.sublayer.output.weight, added.feedforward.sublayer.down.weight):
        assert not weight.any()
        assert weight.grad.any()


def test_a_head_that_was_tied_becomes_a_copy():
    made, report = exactly(tiny("gpt2"), {"head.tied": False, "embedding.vocab": 300})
    assert torch.equal(made.head.weight, made.embedding.weight)
    assert [line.fate for line in report.lines if line.weight == "head.weight"] == ["copied"]


def test_new_rows_are_the_mean_and_noise_depends_on_the_seed_alone():
    old = trained(tiny("llama-3-8b"))
    new = tiny("llama-3-8b", embedding__vocab=331)
    plain, *noisy = (transform(old, new, choices)[0] for choices in (
        None, TransformChoices(noise=0.5), TransformChoices(noise=0.5), TransformChoices(noise=0.5, seed=1)))  # fmt: skip
    rows = plain.embedding.weight[288:]
    torch.testing.assert_close(rows, old.embedding.weight.mean(0).expand_as(rows))
    assert torch.equal(noisy[0].embedding.weight, noisy[1].embedding.weight)
    assert not torch.equal(noisy[0].embedding.weight, noisy[2].embedding.weight)
    assert torch.equal(af.transform(old, new, TransformChoices(noise=0.5))[0].embedding.weight, noisy[0].embedding.weight)
    spread = (noisy[0].embedding.weight[288:] - rows).std(0) / old.embedding.weight.std(0)
    assert 0.3 < spread.mean() < 0.7


@pytest.mark.parametrize("length", [40, 100, 200])
def test_a_table_of_positions_is_cut_or_repeated(length):
    made, _ = exactly(tiny("gpt2"), {"decoder.position.length": length})
    table = made.decoder.position.weight
    assert torch.equal(table[64:], table[: max(length - 64, 0)] if length <= 128 else table[torch.arange(64, 200) % 64])


def test_rows_before_position_0_stay_in_front():
    """OPT's two rows that no token uses."""
    old = tiny("opt-125m")
    assert old.decoder.position.offset == 2
    made, _ = exactly(old, {"decoder.position.length": 100})
    table = made.decoder.position.weight
    assert torch.equal(table[66:], table[2:38])


def test_longer_rotary_positions_are_the_same_within_the_old_length():
    scaling = {"kind": "dynamic", "factor": 4.0, "trained": 64}
    exactly(tiny("llama-3-8b"), {"decoder.layer.attention.rotary.scaling": scaling})


LATENT = {"kind": "latent_attention", "heads": 4, "value_width": 4}
TURNED = {"rotary": {"theta": THETA, "pairing": "adjacent"}}


@pytest.mark.parametrize(
    ("old", "latent"),
    [
        ({"rotary": None}, {"kv_rank": 16, "nope_width": 4, "rope_width": 2}),
        ({"rotary": None, "value_scale": 0.5, "scale": 0.7}, {"kv_rank": 20, "nope_width": 6, "rope_width": 2, "q_rank": 16}),
        ({"kv_heads": 1}, {"kv_rank": 4, "nope_width": 1, "rope_width": 4, **TURNED}),
        ({"kv_heads": 1, "rotary.fraction": 0.5}, {"kv_rank": 6, "nope_width": 2, "rope_width": 2, **TURNED}),
        (
            {"kv_heads": 1, "rotary.fraction": 0.5, "rotary.place": "last"},
            {"kv_rank": 6, "nope_width": 2, "rope_width": 2, **TURNED},
        ),
    ],
    ids=["unrotated", "with factors and a latent of queries", "one rotated head", "partly rotated", "at the end"],
)  # fmt: skip
def test_keys_and_values_of_their_rank_fit_into_a_latent(old, latent):
    paths = {f"decoder.layer.attention.{path}": value for path, value in old.items()}
    before = af.architecture(tiny("llama-2-7b", decoder__layer__attention__kv_heads=2), changes=paths)
    exactly(before, {ATTENTION: {**LATENT, **latent}})


def test_equal_rotated_heads_share_their_rotation():
    """The first principal component of equal heads is all of them: one rotated key stands for every head."""
    single = trained(tiny("llama-2-7b", decoder__layer__attention__kv_heads=1))
    model, _ = transform(single, tiny("llama-2-7b", decoder__layer__attention__kv_heads=4))
    latent = {**LATENT, "kv_rank": 8, "nope_width": 1, "rope_width": 4, "rotary": {"theta": THETA}}
    made, report = transform(model, af.architecture(model.architecture, changes={ATTENTION: latent}))
    assert apart(model, made) < 1e-6
    assert not report.parameters("approximated")


def test_the_old_model_is_left_as_it_is_and_shares_nothing():
    model = trained(tiny("gpt2"))
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    made, _ = transform(model, tiny("gpt2", decoder__order="layer*3"))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(1)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]), name


def test_the_number_format_stays():
    made, _ = transform(trained(tiny("gpt2")).bfloat16(), tiny("gpt2", decoder__layer__attention__kv_heads=2))
    assert {parameter.dtype for parameter in made.parameters()} == {torch.bfloat16}
