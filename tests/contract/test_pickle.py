"""What comes back from pickle computes the same: torch.save, copies, and processes that are spawned."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from zoo import ZOO

from anyformer.model.transformer import build


@pytest.mark.parametrize("name", list(ZOO)[::15])
def test_what_comes_back_computes_the_same(name):
    model = build(ZOO[name]).eval()
    x = [part.example(2, 7) for part in (model.architecture.embedding, model.architecture.decoder_embedding) if part]
    x += [model.architecture.embedding.example(2, 5)] * (model.architecture.two_inputs and len(x) == 1)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(again(*x), model(*x))
