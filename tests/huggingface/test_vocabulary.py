"""Every key of a configuration has one kind, said in one place; what does not fit is refused by key, value and expectation."""

from __future__ import annotations

import ast
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest
import transformers

import anyformer.huggingface
from anyformer.huggingface import HuggingFaceError
from anyformer.huggingface.config import Config
from anyformer.huggingface.registry import read_architecture
from anyformer.huggingface.vocabulary import KINDS, NULL, SIZE
from huggingface.cases import CASES
from huggingface.cases.llama import BASE

LLAMA = {"model_type": "llama", "vocab_size": 53, **BASE}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_layers": "2"}, 'num_hidden_layers = "2" should be a whole number from 1 to 10000'),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers = 2.0 should be a whole number"),
        ({"num_hidden_layers": True}, "num_hidden_layers = true should be a whole number"),
        ({"num_hidden_layers": None}, "num_hidden_layers = null should be a whole number"),
        ({"num_hidden_layers": 2**31}, "num_hidden_layers = 2147483648 should be a whole number from 1 to 10000"),
        ({"num_hidden_layers": [2]}, r"num_hidden_layers = \[2\] should be"),
        ({"num_hidden_layers": 10**5000}, "num_hidden_layers = a number of thousands of digits should be"),
        ({"hidden_size": 2**31}, "hidden_size = 2147483648 should be a whole number from 1 to 2147483647"),
        ({"hidden_size": -32}, "hidden_size = -32 should be"),
        ({"hidden_act": ["silu"]}, r'hidden_act = \["silu"\] should be a string'),
        ({"rope_parameters": True}, "rope_parameters = true should be a table"),
        ({"rope_parameters": {"rope_type": 3}}, "rope_parameters.rope_type = 3 should be a string"),
        ({"rope_parameters": {"rope_type": "linear", "factor": "4"}}, 'rope_parameters.factor = "4" should be a number'),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters.factor is missing"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps = NaN should be a number"),
        ({"rms_norm_eps": None}, "rms_norm_eps = null should be a number"),
        ({"attention_bias": "false"}, 'attention_bias = "false" should be true or false'),
        ({"attention_bias": 0}, "attention_bias = 0 should be true or false"),
        ({"model_type": ["llama"]}, r'model_type = \["llama"\] should be a string'),
        ({"model_type": None}, "model_type = null should be a string"),
        ({"new_key": {"a": ["x" * 5000]}}, "keys that are not known here.*new_key = .{60}$"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_key_value_and_expectation(changes, words):
    with pytest.raises(HuggingFaceError, match=words):
        read_architecture(Config({**LLAMA, **changes}))


def test_the_list_of_classes_is_a_list():
    with pytest.raises(HuggingFaceError, match='architectures = "BertModel" should be a list of strings'):
        _ = Config({"architectures": "BertModel"}).task


def test_null_is_absence_where_absence_is_allowed():
    silent = read_architecture(Config(LLAMA))[0]
    assert read_architecture(Config({**LLAMA, "head_dim": None, "rope_parameters": None, "rope_scaling": None}))[0] == silent
    within = {"rope_type": "default", "rope_theta": None, "factor": None}
    assert read_architecture(Config({**LLAMA, "rope_parameters": within}))[0] == silent


def test_a_model_type_may_want_more_than_the_vocabulary():
    config = Config({"model_type": "x", "decoder_sparse_step": 0, "head_dim": None})
    assert config("decoder_sparse_step", 1) == 0
    with pytest.raises(HuggingFaceError, match="decoder_sparse_step = 0 should be a whole number from 1"):
        config("decoder_sparse_step", 1, kind=SIZE)
    assert config("head_dim", 64) is None
    with pytest.raises(HuggingFaceError, match="head_dim = null should be"):
        config("head_dim", 64, kind=SIZE)


def test_every_key_that_the_code_reads_has_a_kind():
    read = set()
    for path in Path(anyformer.huggingface.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).removesuffix(".expect") in ("config", "inner", "outer"):
                read |= {each.value for each in node.args[:1] if isinstance(each, ast.Constant)}
    assert len(read) > 250, "the search finds what it looks for"
    assert not read - set(KINDS)
    assert set(KINDS) >= NULL


def _samples(annotation: Any) -> list[Any]:
    """A value of each plain type that an annotation admits."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [value for each in get_args(annotation) for value in _samples(each)]
    plain = {int: 2, float: 0.5, bool: True, str: "gelu", dict: {}}
    lists = {list[int]: [1], list[str]: ["a"], tuple[int, ...]: [1]}
    return [{**plain, **lists}[annotation]] if annotation in plain or annotation in lists else []


STRICTER = {
    "image_size": list, "patch_size": list, "logit_scale": str, "classifier_activation": bool,
    "activation_sparsity_pattern": float,
}  # fmt: skip
"""Key -> what a class of transformers allows of it and no family here reads."""
OWN_KIND = {("gemma3n_text", "intermediate_size")}
"""(model type, key) that its family reads with a wider kind than the vocabulary's, which is that of all others."""


def test_what_transformers_allows_fits_the_vocabulary():
    types_of = {case.model_type for case in CASES}
    compared = 0
    for model_type in sorted(types_of):
        made = transformers.models.auto.configuration_auto.CONFIG_MAPPING[model_type]
        hints = {name: each for base in reversed(made.__mro__) for name, each in vars(base).get("__annotations__", {}).items()}
        for key, kind in KINDS.items():
            annotation = hints.get(key)
            for value in _samples(annotation) if annotation else []:
                compared += 1
                if isinstance(value, STRICTER.get(key, ())) or (model_type, key) in OWN_KIND:
                    continue
                assert kind.fits(value), f"{model_type}: {key} may be {value!r} ({annotation}), and here is {kind.words}"
    assert compared > 3000
