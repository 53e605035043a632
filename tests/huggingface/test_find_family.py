"""Every family is asked for every architecture: it refuses with a reason, or has a configuration for it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from zoo import ZOO

from anyformer import huggingface


@pytest.mark.parametrize("model_type", [model_type for types in huggingface.FAMILIES.values() for model_type in types])
def test_no_family_stumbles_over_what_is_not_its_own(model_type):
    for architecture in list(ZOO.values())[::9]:  # all take minutes
        with suppress(huggingface.HuggingFaceError):
            huggingface.find_family(architecture, model_type)
