"""Every kind of architecture is expressed by a family, exactly, or refused in words."""

from __future__ import annotations

import pytest
from zoo import DECODERS, ENCODERS

from anyformer import huggingface
from anyformer.parts import Initialisation


def test_an_architecture_is_expressed_exactly_or_refused():
    expressed = 0
    for architecture in (*DECODERS.values(), *ENCODERS.values()):
        try:
            family, config = huggingface.express(architecture)
        except huggingface.HuggingFaceError:
            continue
        again = family.read(huggingface.Config({**config, "model_type": family.model_type}))
        assert again.but(initialisation=Initialisation()) == architecture.but(initialisation=Initialisation())
        expressed += 1
    assert expressed > 10


def test_the_refusal_names_what_differs():
    with pytest.raises(huggingface.HuggingFaceError, match=r"llama: .*score_bias"):
        huggingface.express(DECODERS["alibi"], "llama")
