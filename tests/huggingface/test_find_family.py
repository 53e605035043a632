"""Every family is asked for every architecture: it refuses with a reason, or has a configuration for it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from zoo import ZOO

from anyformer import huggingface

TYPES = [model_type for types in huggingface.FAMILIES.values() for model_type in types]
APART = len(ZOO)
"""A type is asked about one architecture of the zoo, since all take minutes; the next type about the next."""


@pytest.mark.parametrize("apart", [APART, pytest.param(APART // 8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model_type", TYPES)
def test_no_family_stumbles_over_what_is_not_its_own(model_type, apart):
    for architecture in list(ZOO.values())[TYPES.index(model_type) % apart :: apart]:
        with suppress(huggingface.HuggingFaceError):
            huggingface.find_family(architecture, model_type)
