"""Every family is asked for every architecture: it says no in words, or its configuration gives exactly that architecture."""

from __future__ import annotations

import pytest
from zoo import ZOO

from anyformer import huggingface
from anyformer.parts import Initialisation

PLAIN = Initialisation()


@pytest.mark.parametrize("model_type", [model_type for types in huggingface.FAMILIES.values() for model_type in types])
def test_no_family_stumbles_over_what_is_not_its_own(model_type):
    for name, architecture in ZOO.items():
        try:
            family, config = huggingface.express(architecture, model_type)
        except huggingface.HuggingFaceError:
            continue
        again = family.read(huggingface.Config(config))
        assert again.but(initialisation=PLAIN) == architecture.but(initialisation=PLAIN), name
