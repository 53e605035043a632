"""Mixers of other families, branches of some layers, and what a base refuses: put in, left out, and set aside."""

from __future__ import annotations

import pytest

from anyformer.describe import get
from anyformer.huggingface.rules import To
from anyformer.model import decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, GatedConvolution, Head, RMSNorm, ShortConvolution, pre_norm
from anyformer.porting import Derivation, proposal
from anyformer.porting.explaining import explained
from anyformer.porting.layer_kinds import _told_apart
from anyformer.porting.offers import MixerLayers, grafts, offers
from anyformer.porting.refusals import beside
from anyformer.porting.some_layers import WithoutBranch
from anyformer.porting.tensors import modules_of, shapes_in
from porting.hidden import tiny, without

BAMBA = {
    "hidden_size": 32, "num_hidden_layers": 3, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8,
    "mamba_d_state": 6, "mamba_n_groups": 2,
}  # fmt: skip
SMOLLM3 = {"num_hidden_layers": 4, "no_rope_layers": [1, 1, 0, 1], "no_rope_layer_interval": 3}


@pytest.mark.parametrize(
    ("model_type", "among", "more", "says"),
    [
        ("bamba", ["exaone", "granitemoehybrid"], BAMBA, " of 3 layers, as "),
        ("smollm3", ["llama"], SMOLLM3, "no rotary positions in layers 2, by no_rope_layer"),
    ],
)
def test_what_some_layers_have_is_found(model_type, among, more, says, tmp_path):
    directory = tiny(model_type, tmp_path / "model", **more)
    with without(model_type):
        found = proposal(directory, "transformers", among=among)
    assert found.proof.equal, (found.proof.first, found.proof.failed, found.fit.left, found.fit.missing)
    assert any(says in reason for reason in (*found.certain, *found.guessed))


CONVOLVED = GatedConvolution(convolution=ShortConvolution(kernel=3))
BLOCK = pre_norm(RMSNorm(), Attention(heads=2), FeedForward(width=24))
DENSE = decoder_only(Embedding(vocab=31), 16, [BLOCK] * 3, final_norm=RMSNorm(), head=Head())


def blocks(architecture):
    return [architecture.decoder.variants[name] for name in architecture.decoder.layers]


def test_a_mixer_stands_in_its_layers_under_its_name_with_the_norm_that_was_there():
    made = MixerLayers((0, 2), "convolution", CONVOLVED)(DENSE)
    assert [[*block.branches] for block in blocks(made)] == [
        ["convolution", "feedforward"], ["attention", "feedforward"], ["convolution", "feedforward"],
    ]  # fmt: skip
    assert get(blocks(made)[0], "convolution.sublayer") == CONVOLVED
    assert get(blocks(made)[0], "convolution.norm_before") == get(BLOCK, "attention.norm_before")


def test_a_branch_goes_from_its_layers_alone_and_never_the_last_one():
    made = WithoutBranch((1,), "feedforward")(DENSE)
    assert [[*block.branches] for block in blocks(made)] == [
        ["attention", "feedforward"], ["attention"], ["attention", "feedforward"],
    ]  # fmt: skip
    assert blocks(WithoutBranch((1,), "attention")(made)) == blocks(made)
    assert WithoutBranch((1,), "feedforward", "encoder")(DENSE) == DENSE


def test_a_mixer_is_offered_with_its_lines_under_the_names_of_the_files(tmp_path):
    directory = tiny("bamba", tmp_path / "model", **BAMBA)
    modules = modules_of(shapes_in(directory))
    table = {**BAMBA, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 53}
    renamed = {name.replace(".mamba.", ".ssm."): module for name, module in modules.items()}
    renamed = {name: type(each)(name, each.leaves) for name, each in renamed.items()}
    fits = [explained(Derivation(name), table, renamed) for name in ("granitemoehybrid", "llama")]
    (offer,) = (each for each in offers(fits, renamed) if each.branch == "mamba2")
    assert (offer.layers, offer.lacking) == ((0, 2), 0)
    assert offer.lines["mamba2.A_log"] == To("model.layers.{i}.ssm.A_log")
    assert any(to.name == "model.layers.{i}.ssm.conv1d.weight" for to in offer.lines.values())
    # It has no place where nothing is left: the family that offers it explains its weights.
    assert not list(grafts(fits[0], [offer])) or fits[0].left


def test_what_a_base_refuses_is_set_aside_with_what_is_held_to_its_value():
    plain, table = (
        Derivation("llama"),
        {"rope_parameters": {"rope_type": "yarn", "odd": 1.0, "theta": 2}, "flag": 3, "mlp_bias": True},
    )
    made = beside(plain, "rope_parameters: odd mean nothing here for rope_type 'yarn'", {}, table)
    assert (made.aside, made.pinned) == (("odd",), {"rope_parameters": table["rope_parameters"]})
    made = beside(plain, "config.json: mlp_bias = true is not supported for x, only false", {}, table)
    assert made.pinned == {"mlp_bias": True}
    made = beside(plain, "config.json: num_experts is missing", {"num_experts": 16}, table)
    assert made.absent == {"num_experts": 16}
    assert beside(made, "config.json: num_experts is missing", {}, table) is None
    assert beside(plain, "the heads do not add up", {}, table) is None


def test_entries_aside_are_not_read_and_the_whole_table_is_held():
    table = {"rope_type": "default", "rope_theta": 30.0, "odd": 1.0}
    keys = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 40, "vocab_size": 53}
    fit = explained(Derivation("llama"), {**keys, "rope_parameters": table}, {})
    assert fit.derivation.aside == ("odd",)
    assert fit.derivation.pinned == {"rope_parameters": table}
    assert get(next(iter(fit.architecture.decoder.variants.values())), "attention.rotary").theta == 30.0


def test_layers_are_told_apart_by_lists_and_periods():
    table = {
        "kinds": ["a", "b", "a", "b"], "same": [1, 1, 1, 1], "numbered": [0, 3], "n_interval": 3, "layers": 2, "short": [1, 0],
        "nested": [[1], [2], [3], [4]],
    }  # fmt: skip
    found = _told_apart(table, 4)
    assert found[0, 2] == found[1, 3] == "kinds"
    assert found[0, 3] == found[1, 2] == "numbered"
    assert found[(2,)] == found[0, 1, 3] == "n_interval"
    assert "same" not in found.values()
    assert "layers" not in found.values()
