"""HRM-Text: a prefix that is read both ways, cycles that are refused, and the number of layers in older files."""

from __future__ import annotations

import pytest
import torch

from anyformer import huggingface
from anyformer.huggingface import Config, HuggingFaceError
from anyformer.parts import Causal
from huggingface.cases.hrm_text import BASE, CASES
from huggingface.parity import gap, inputs, pair

TABLE = {"model_type": "hrm_text", "vocab_size": 53, **BASE}


def test_a_prefix_is_read_both_ways():
    both = pair(CASES[0])
    (tokens,) = inputs(both)
    prefix = torch.tensor([5, 0])
    types = (torch.arange(tokens.shape[1]) < prefix[:, None]).long()
    with torch.no_grad():
        ours = both.ours(tokens, prefix=prefix)
        theirs = both.theirs(input_ids=tokens, token_type_ids=types).logits
        assert gap(ours, theirs) < both.case.logits
        assert gap(both.ours(tokens)[:1], theirs[:1]) > 0.01


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"L_bp_cycles": [2, -1]}, r"L_bp_cycles = \[2, -1\] should be numbers of passes, from 0"),
        ({"L_bp_cycles": 2}, "L_bp_cycles = 2 should be a list of whole numbers"),
        ({"num_layers_per_stack": 2}, "num_hidden_layers = 2 is not supported .* only 16"),
        ({"H_cycles": 10_000, "L_cycles": 10_000}, "H_cycles = 10000 should be so small"),
        ({"num_key_value_heads": 2}, "num_key_value_heads = 2 is not supported .* only 4"),
        ({"initializer_range": 0.0}, "initializer_range = 0.0 should be a number above 0"),
        ({"L_cycles": 0}, "L_cycles = 0 should be a whole number from 1"),
    ],
)
def test_cycles_that_are_not_known_are_refused(changes, words):
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.read_architecture(Config(TABLE | changes))


def test_the_layers_of_a_pass_and_the_layers_that_are_computed():
    """The class takes `num_hidden_layers` for those of a pass, unless another key says how many they are."""
    first, family = huggingface.read_architecture(Config(TABLE))
    again, _ = huggingface.read_architecture(Config(TABLE | {"num_layers_per_stack": 2, "num_hidden_layers": 16}))
    assert first == again
    written = family.write(first)
    assert (written["num_layers_per_stack"], written["num_hidden_layers"], written["L_bp_cycles"]) == (2, 16, [1, 2])


def test_keys_of_the_published_conversion():
    plain = {key: value for key, value in TABLE.items() if key != "rope_parameters"}
    more = {"num_key_value_heads": 4, "L_bp_steps": [0, 1], "rope_theta": 100.0, "pad_token_id": 0, "bos_token_id": 6}
    again, _ = huggingface.read_architecture(Config(plain | more))
    assert again.resolved() == huggingface.read_architecture(Config(TABLE))[0].resolved()


def test_an_embedding_without_a_scale_has_that_of_the_first_weights():
    made, _ = huggingface.read_architecture(Config(TABLE | {"initializer_range": 0.05, "prefix_lm": False}))
    assert made.embedding.scale == 20.0
    assert made.decoder.variants["low_0"].branches["attention"].sublayer.mask == Causal()


def test_layers_in_no_cycles_are_no_hrm():
    plain = {key: value for key, value in TABLE.items() if "cycles" not in key}
    llama, _ = huggingface.read_architecture(Config({**plain, "model_type": "llama"}))
    with pytest.raises(HuggingFaceError, match="hrm_text cannot express this architecture"):
        huggingface.find_family(llama, "hrm_text")
