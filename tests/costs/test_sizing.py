"""Compute-optimal sizes against the papers, the laws against a search, and remarks against well-known architectures."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture, listing
from anyformer.costs.sizing import BESIROGLU, HOFFMANN, compute_optimal, remarks
from anyformer.describe import UserError, change_all

GOPHER = 5.76e23
"""FLOPs that Gopher and Chinchilla were trained with (arXiv 2203.15556, figure 1)."""


def test_chinchilla_is_optimal_for_its_compute():
    rule = compute_optimal(GOPHER)
    assert abs(rule.parameters / 70e9 - 1) < 0.02
    assert abs(rule.tokens / 1.4e12 - 1) < 0.02
    assert abs(6 * rule.parameters * rule.tokens / GOPHER - 1) < 1e-9
    assert "arXiv 2203.15556" in str(rule)


def test_the_printed_law_gives_the_printed_exponents_and_size():
    """Table 2: a = 0.46, b = 0.54 of the fitted law; figure 4: 40 B parameters for Gopher's compute."""
    assert abs(HOFFMANN.beta / (HOFFMANN.alpha + HOFFMANN.beta) - 0.46) < 0.01
    assert abs(HOFFMANN.best(GOPHER).parameters / 40e9 - 1) < 0.02


def test_the_law_fitted_again_agrees_with_the_rule():
    best = BESIROGLU.best(GOPHER)
    assert 15 < best.tokens / best.parameters < 30
    # Their abstract: E, A, B, alpha, beta; and a = 0.513, b = 0.487 of section 4.
    assert (BESIROGLU.entropy, BESIROGLU.of_parameters, BESIROGLU.of_tokens) == (1.8172, 482.01, 2085.43)
    assert abs(BESIROGLU.beta / (BESIROGLU.alpha + BESIROGLU.beta) - 0.5126) < 1e-4


@pytest.mark.parametrize("law", [HOFFMANN, BESIROGLU])
@pytest.mark.parametrize("flops", [1e18, 1e21, 1e25])
def test_no_other_size_has_less_loss(law, flops):
    best = law.best(flops)
    assert abs(6 * best.parameters * best.tokens / flops - 1) < 1e-9
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2):
        parameters = best.parameters * factor
        assert law.loss(parameters, flops / 6 / parameters) > best.loss


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan")])
def test_no_compute_is_refused(wrong):
    with pytest.raises(UserError, match="more than 0"):
        compute_optimal(wrong)


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("llama-7b", []),
        ("llama-3-8b", []),
        ("gpt3-175b", []),
        ("t5-11b", ["feed-forward width", "width / depth", "width of heads"]),
        ("smollm-135m", ["width / depth"]),
        ("gpt2", []),
        ("mixtral-8x7b", []),
        ("llama-12m", ["vocabulary"]),
        ("qwen3-0.6b", ["width / depth", "width of heads"]),
    ],
)
def test_remarks_on_well_known_architectures(name, about):
    assert sorted({remark.about for remark in remarks(architecture(name))}) == about


def test_remarks_speak():
    (remark, *_) = remarks(architecture("t5-11b"))
    assert "65,536 is 64.00 times the width of 1,024" in str(remark)
    assert "plain network is 4 times, 4,096" in str(remark)
    assert "(4 times since Vaswani et al. 2017" in str(remark)


def test_one_layer_is_one():
    narrow = change_all(architecture("gpt2"), {"width": 64, "decoder.layer.attention.heads": 4, "decoder.order": "layer*4"})
    (said,) = [str(remark) for remark in remarks(narrow) if remark.about == "width / depth"]
    assert "here 1 layer" in said
    assert "layers" not in said.partition("here ")[2].partition("(")[0]


def test_most_of_the_catalogue_keeps_to_the_rules():
    said = [{remark.about for remark in remarks(architecture(entry.name))} for entry in listing()]
    assert sum(not about for about in said) > len(said) / 3
