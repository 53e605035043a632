"""Writing a configuration is reading it with the values taken from an architecture."""

from __future__ import annotations

import pytest
from zoo import DECODERS

from anyformer import huggingface
from anyformer.describe import change_all, get
from anyformer.huggingface import Config
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.target import Target
from huggingface.cases import CASES
from huggingface.composite_cases import INNER

LLAMA = DECODERS["llama"]


def writing(architecture=LLAMA) -> Config:
    return Config({}, target=Target(architecture))


def test_a_key_has_the_value_of_its_place_and_is_recorded():
    config = writing()
    assert config("hidden_size") == LLAMA.width
    assert config("n_embd", 5, lambda target: target.architecture.width + 1) == LLAMA.width + 1
    assert config.written == {"hidden_size": LLAMA.width, "n_embd": LLAMA.width + 1}


def test_the_first_place_counts():
    config = writing()
    config("hidden_size", at=lambda target: 7)
    assert config("hidden_size") == 7
    config.put(hidden_size=8, vocab_size=9)
    assert config.written == {"hidden_size": 7, "vocab_size": 9}


def test_an_empty_place_leaves_out_a_key_with_a_default_and_refuses_one_without():
    config = writing()
    assert config("num_experts", 3) == 3
    assert config.written == {}
    with pytest.raises(MismatchError, match="no layer has a branch 'experts'"):
        config("num_experts")


def test_none_is_written_where_absence_would_mean_another():
    absent, null, assumed = writing(), writing(), writing()
    assumed.assume(head_dim=64)
    place = lambda target: None  # noqa: E731
    assert (absent("head_dim", None, place), absent.written) == (None, {})
    assert (null("head_dim", 64, place), null.written) == (None, {"head_dim": None})
    assert (assumed("head_dim", None, place), assumed.written) == (None, {"head_dim": None})


def test_a_table_in_a_configuration_is_written_too():
    config = writing()
    inner = config.inner("attn_config")
    inner("kv_n_heads", 1, lambda target: 3)
    assert config.written == {"attn_config": {"kv_n_heads": 3}}


def test_several_spellings_are_one_key():
    read = Config({"num_local_experts": 4})
    assert read.either("num_experts", "num_local_experts", default=1) == 4
    assert Config({}).either("num_experts", "num_local_experts", default=1) == 1
    with pytest.raises(huggingface.HuggingFaceError, match="num_experts and num_local_experts are one thing"):
        Config({"num_local_experts": 4, "num_experts": 5}).either("num_experts", "num_local_experts")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("experts.width", "no layer has a branch"),
        ("head.sunshine", "has no head.sunshine"),
        ("encoder:attention.heads", "encoder"),
    ],
)
def test_what_is_not_there_is_a_refusal(path, words):
    with pytest.raises(MismatchError, match=words):
        Target(LLAMA)(path)
    assert Target(LLAMA).get(path, 5) == 5


@pytest.mark.parametrize(
    ("model_type", "path", "rule"),
    [
        ("gemma2", "embedding.scale", "sqrt_width"),
        ("ctrl", "embedding.scale", "sqrt_width"),
        ("t5", "head.scale", "inverse_sqrt_width"),
        ("gpt2", "initialisation.residual_scale", "inverse_sqrt_2_depth"),
    ],
)
def test_a_factor_that_a_class_computes_from_a_size_is_read_as_its_rule(model_type, path, rule):
    case = next(each for each in CASES if each.model_type == model_type)
    architecture, family = huggingface.read_architecture(Config({"model_type": model_type, **case.config}))
    assert get(architecture, path) == rule
    again = family.read(Config(family.write(architecture)))
    assert get(again, path) == rule


def test_a_factor_that_a_configuration_gives_is_written_as_a_number():
    architecture = change_all(LLAMA, {"embedding.scale": "sqrt_width", "head.scale": "inverse_sqrt_width"})
    config = huggingface.family("granite").write(architecture)
    assert config["embedding_multiplier"] == LLAMA.width**0.5
    assert config["logits_scaling"] == pytest.approx(LLAMA.width**0.5)


def test_step_3_7_has_a_shared_expert_of_its_width_and_no_activation_but_silu():
    """Its class reads no activation, so that files of another one would compute something else."""
    config = next(case.config for case in INNER if case.model_type == "step3p5")
    architecture, _ = huggingface.read_architecture(huggingface.Config({**config, "model_type": "step3p5"}))
    written = huggingface.find_family(architecture, "step3p5")[1]
    assert (written["share_expert_dim"], written.get("hidden_act", "silu")) == (16, "silu")
    other = change_all(architecture, {"decoder.full_dense_bounds0.feedforward.activation": "gelu"})
    with pytest.raises(huggingface.HuggingFaceError, match=r"feedforward\.activation is '?silu'? there and '?gelu'? here"):
        huggingface.find_family(other, "step3p5")
