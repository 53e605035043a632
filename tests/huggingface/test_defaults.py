"""A key that a configuration leaves out means the default of transformers' class: for every key of every type's tiny one."""

from __future__ import annotations

import pytest
import transformers
from huggingface_hub.errors import StrictDataclassError

from anyformer import huggingface
from anyformer.describe import diff
from huggingface.cases import CASES
from huggingface.test_spellings import WRITTEN_OUT, read

PLAIN = {each.model_type: each.config for each in reversed(CASES) if each.name == "plain"}


@pytest.mark.parametrize("model_type", PLAIN)
def test_a_key_that_is_left_out_is_that_of_the_configuration_class(model_type):
    wrong, compared = {}, 0
    for key in PLAIN[model_type]:
        table = {name: value for name, value in PLAIN[model_type].items() if name != key}
        try:
            theirs = transformers.AutoConfig.for_model(model_type, **table).to_dict()
            pair = read(model_type, table), read(model_type, {**theirs, "model_type": model_type})
        except (huggingface.HuggingFaceError, StrictDataclassError, ValueError, TypeError, ArithmeticError):
            continue  # the tiny size and the class's default do not fit, which one of the two says
        compared += 1
        found = [each for each in diff(*pair) if each[1] is not None or each[0].split(".")[-1] not in WRITTEN_OUT]
        if found:
            wrong[key] = found
    assert wrong == {}, "the defaults of the class are others: {key left out: [(where, here, in transformers)]}"
