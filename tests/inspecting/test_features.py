"""Features of a dictionary beside its model: what is active, what it writes, and dictionaries that do not fit."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.describe import InputError
from anyformer.inspecting import FeatureDictionary, feature_table
from anyformer.model import dictionary_alone
from anyformer.model.transformer import build
from anyformer.objectives.activations import vector_at
from anyformer.parts import Dictionary, MeanLength, TopKCode

TOKENS = torch.tensor([[5, 1, 7, 2], [3, 3, 0, 9]])
PATH, INNER = "decoder.layer[0].output", "decoder.layer[1].feedforward.hidden"


@pytest.fixture(scope="module", params=["gpt2", "gemma-2-2b"])
def source(request):
    """Of a norm with a bias, and with a soft cap of logits."""
    model = build(architecture(request.param, tiny=True), seed=1).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("final_norm.bias"):
                weight.copy_(torch.linspace(-2, 2, len(weight)))
    return model


def dictionary(width, **fields):
    model = build(dictionary_alone(Dictionary(features=30, **fields), width, 1.0), seed=2).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(
                    torch.full_like(weight, 3.0) if name.endswith("length.length") else torch.linspace(-1, 1, len(weight))
                )
    return model


def module_of(model):
    return model.get_submodule("encoder.layers.0.dictionary.sublayer")


@pytest.mark.parametrize("fields", [{}, {"code": TopKCode(k=4), "length": MeanLength(), "unit": True}])
def test_features_are_those_of_the_formula(source, fields):
    width = source.architecture.width
    found = FeatureDictionary(dictionary(width, **fields), source, (PATH,), (PATH,))
    with torch.no_grad(), source.watch(PATH) as seen:
        source(TOKENS)
    module = module_of(found.dictionary)
    scale = width**0.5 / 3.0 if fields else 1.0
    with torch.no_grad():
        before = (scale * seen[PATH] - module.decoder.bias) @ module.encoder.weight.mT + module.encoder.bias
        active = before.relu()
        if fields:
            active = torch.where(active >= active.topk(4, -1).values[..., -1:], active, 0.0)
        vectors = module.decoder.weight / (module.decoder.weight.norm(dim=0) if fields else 1.0)
    reading = found.reading(TOKENS)
    assert torch.allclose(reading.active_BTF, active, atol=1e-5)
    here = reading.strongest(row=1, position=2, most=3)
    values, features = active[1, 2].topk(3)
    assert [feature for feature, _ in here] == features.tolist()
    assert [value for _, value in here] == pytest.approx(values.tolist(), abs=1e-5)
    assert torch.allclose(found.directions([4, 9]), vectors[:, [4, 9]].mT / scale, atol=1e-5)
    assert torch.allclose(reading.of(4, row=1), active[1, :, 4], atol=1e-5)
    assert len(reading.strongest(most=100)) == int((active[0, -1] > 0).sum())
    fired = [at for at in range(4) if active[0, at, features[0]] > 0]
    assert feature_table(reading, int(features[0]), list("abcd")).row_count == len(fired)
    assert found.table(reading).row_count == min(12, int((active[0, -1] > 0).sum()))


def test_tokens_are_those_that_the_direction_alone_makes_likelier(source):
    """The norm of a vector and the head, biases left out and no soft cap, written out."""
    found = FeatureDictionary(dictionary(source.architecture.width), source, (PATH,), (PATH,))
    direction = module_of(found.dictionary).decoder.weight[:, 7].detach()
    norm, table = source.decoder.final_norm, source.embedding.weight.detach()
    with torch.no_grad():
        read = norm(direction[None, None])[0, 0] - norm(torch.zeros_like(direction)[None, None])[0, 0]
        logits = (table @ read) if source.head.weight is None else source.head.weight @ read
    (tokens,) = found.tokens([7], most=5)
    assert found.streamed == PATH
    assert [token for token, _ in tokens] == logits.topk(5).indices.tolist()
    assert [value for _, value in tokens] == pytest.approx(logits.topk(5).values.tolist(), rel=1e-3)


def test_a_dictionary_inside_a_sublayer_writes_no_tokens(source):
    width = vector_at(source.architecture, INNER)
    found = FeatureDictionary(dictionary(width), source, (INNER,), (INNER,))
    assert found.streamed is None
    assert found.tokens([1, 2]) == [[], []]
    assert found.reading(TOKENS).active_BTF.shape == (2, 4, 30)


def test_a_transcoder_writes_where_its_target_is_and_a_crosscoder_at_the_last_of_its_paths(source):
    width = source.architecture.width
    inside, added = "decoder.layer[0].feedforward.input", "decoder.layer[0].feedforward.output"
    transcoder = FeatureDictionary(dictionary(width, centred=False), source, (inside,), (added,))
    assert transcoder.streamed == added
    paths = (PATH, "decoder.layer[1].output")
    both = FeatureDictionary(dictionary(2 * width, blocks=2), source, paths, paths)
    assert both.streamed == paths[1]
    one = FeatureDictionary(dictionary(width), source, (PATH,), (PATH,))
    with torch.no_grad():
        module_of(one.dictionary).decoder.weight.copy_(module_of(both.dictionary).decoder.weight[width:])
    assert [token for token, _ in both.tokens([3])[0]] == [token for token, _ in one.tokens([3])[0]]


def test_what_does_not_fit_is_refused(source):
    width = source.architecture.width
    with pytest.raises(InputError, match=rf"reads {width + 1} numbers, and the model has {width} at decoder"):
        FeatureDictionary(dictionary(width + 1), source, (PATH,), (PATH,))
    with pytest.raises(InputError, match=r"nothing of this model is called 'decoder.layer\[0\].outputs'"):
        FeatureDictionary(dictionary(width), source, ("decoder.layer[0].outputs",), (PATH,))
    with pytest.raises(InputError, match="names no layer"):
        FeatureDictionary(dictionary(width), source, ("decoder.layer[90].output",), (PATH,))
    with pytest.raises(InputError, match="no vector of a fixed size"):
        FeatureDictionary(dictionary(width), source, ("decoder.layer[0].attention.weights",), (PATH,))
    found = FeatureDictionary(dictionary(width), source, (PATH,), (PATH,))
    with pytest.raises(InputError, match="there is no feature 30"):
        found.reading(TOKENS).of(30)
