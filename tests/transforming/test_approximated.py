"""Changes that cannot be exact report the error they make: held against direct computations in plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import anyformer as af
from anyformer.parts import Rotary
from anyformer.transforming import TransformChoices, transform
from transforming.changed import apart, tiny, trained

ATTENTION = "decoder.layer.attention.sublayer"


def projections(model, layer=0):
    """W_q, W_k, W_v of a layer as float64 arrays."""
    part = model.decoder.layers[layer].attention.sublayer
    return tuple(each.weight.detach().double().numpy() for each in (part.query, part.key, part.value))


def errors(report):
    """The error of every approximated weight by the last words of its name."""
    return {line.weight.removeprefix("decoder.attention."): line.error for line in report.lines if line.fate == "approximated"}


def test_pooled_heads_are_means_and_the_error_is_that_of_every_old_head():
    model = trained(tiny("llama-2-7b"))
    made, report = transform(model, tiny("llama-2-7b", decoder__layer__attention__kv_heads=2))
    worst = {}
    for layer in range(2):
        old, new = projections(model, layer), projections(made, layer)
        for name, before, after in zip(("key", "value"), old[1:], new[1:], strict=True):
            gap = 0.0
            for head in range(4):
                group = after[(head // 2) * 4 : (head // 2) * 4 + 4]
                pair = [before[h * 4 : h * 4 + 4] for h in (head // 2 * 2, head // 2 * 2 + 1)]
                np.testing.assert_allclose(group, (pair[0] + pair[1]) / 2, atol=1e-7)
                gap += ((before[head * 4 : head * 4 + 4] - group) ** 2).sum()
            error = (gap / (before**2).sum()) ** 0.5
            worst[f"{name}.weight"] = max(worst.get(f"{name}.weight", 0.0), error)
    assert errors(report) == pytest.approx(worst, rel=1e-4)
    assert report.logits_error == pytest.approx(apart_on_random_tokens(model, made), rel=1e-3)


def apart_on_random_tokens(old, new):
    tokens = torch.randint(0, 288, (2, 32), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return float((old(tokens) - new(tokens)).abs().max() / old(tokens).abs().max())


def test_stretched_positions_are_interpolated_as_numpy_does():
    model = trained(tiny("gpt2"))
    made, report = transform(model, tiny("gpt2", decoder__position__length=100), TransformChoices(positions="interpolated"))
    old = model.decoder.position.weight.detach().double().numpy()
    new = made.decoder.position.weight.detach().numpy()
    place = np.linspace(0, 63, 100)
    wanted = np.stack([np.interp(place, np.arange(64), column) for column in old.T], 1)
    np.testing.assert_allclose(new, wanted, atol=1e-6)
    (line,) = [line for line in report.lines if line.fate == "approximated"]
    assert line.error == pytest.approx(np.linalg.norm(wanted[:64] - old) / np.linalg.norm(old), rel=1e-4)


LATENT = {"kind": "latent_attention", "heads": 4, "value_width": 4}


def test_a_latent_of_lower_rank_is_the_best_one_and_says_its_error():
    """Without rotation: no other factors of that rank are nearer (Eckart and Young), and the error is that of the rest."""
    model = trained(tiny("llama-2-7b", decoder__layer__attention__rotary=None))
    latent = {**LATENT, "kv_rank": 5, "nope_width": 4, "rope_width": 2}
    made, report = transform(model, af.architecture(model.architecture, changes={ATTENTION: latent}))
    worst = {"key_up.weight": 0.0, "value_up.weight": 0.0}
    for layer in range(2):
        _, key, value = projections(model, layer)
        part = made.decoder.layers[layer].attention.sublayer
        down, up_k, up_v = (each.weight.detach().double().numpy() for each in (part.kv_down, part.key_up, part.value_up))
        balance = np.linalg.norm(key) / np.linalg.norm(value)
        both = np.concatenate([key / balance, value])
        made_both = np.concatenate([up_k @ down / balance, up_v @ down])
        least = np.linalg.svd(both, compute_uv=False)[5:]
        assert np.linalg.norm(made_both - both) == pytest.approx(np.linalg.norm(least), rel=1e-5)
        for name, wanted, got in (("key_up.weight", key, up_k @ down), ("value_up.weight", value, up_v @ down)):
            worst[name] = max(worst[name], np.linalg.norm(got - wanted) / np.linalg.norm(wanted))
    found = errors(report)
    assert {name: found[name] for name in worst} == pytest.approx(worst, rel=1e-4)
    assert "query_up.weight" not in found, "queries are as they were"


def scores(queries, keys, rotary, scale):
    """q . k for each head and pair of positions, every vector rotated by its own position, one at a time."""
    length, _, width = queries.shape
    turned = [np.zeros_like(queries), np.zeros_like(keys)]
    for out, given in zip(turned, (queries, keys), strict=True):
        for t in range(length):
            out[t] = given[t]
            for i, (a, b) in enumerate(rotary.pairs(width)):
                angle = t * rotary.theta ** (-2 * i / (2 * len(rotary.pairs(width))))
                x, y = given[t, :, a], given[t, :, b]
                out[t, :, a], out[t, :, b] = np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y
    return np.einsum("the,she->hts", *turned) * scale


@pytest.mark.parametrize(("rope", "fold"), [(4, 1), (2, 2)])
def test_the_shared_rotation_takes_the_first_component_and_leaves_the_rest_unrotated(rope, fold):
    """Scores of the latent = rotated scores of the keys' projection on the component + plain scores of the rest."""
    model = trained(tiny("llama-2-7b"))
    theta = 10_000.0
    latent = {**LATENT, "kv_rank": 16, "nope_width": 4, "rope_width": rope, "rotary": {"theta": theta}}
    made, report = transform(model, af.architecture(model.architecture, changes={ATTENTION: latent}))
    query, key, _ = projections(model)
    x = np.random.default_rng(0).normal(size=(6, 16))
    q, k = ((x @ each.T).reshape(6, 4, 4) for each in (query, key))
    # The component of each frequency, over heads and the pairs folded into it, by the power method.
    projected, rest, lost, whole = np.zeros((6, 4, rope)), k.copy(), 0.0, 0.0
    q_rope = np.zeros((6, 4, rope))
    pairs, shared = Rotary().pairs(4), Rotary().pairs(rope)
    for i, (a, b) in enumerate(shared):
        folded = pairs[i * fold : (i + 1) * fold]
        rows = [np.stack([key.reshape(4, 4, 16)[h, pair[side]] for h in range(4) for pair in folded]) for side in (0, 1)]
        gram, u = rows[0] @ rows[0].T + rows[1] @ rows[1].T, np.ones(4 * fold)
        for _ in range(20_000):
            u = gram @ u
            u /= np.linalg.norm(u)
        for side, place in ((0, a), (1, b)):
            component = x @ (u @ rows[side])
            kept = np.outer(u, u @ rows[side])
            lost, whole = lost + ((rows[side] - kept) ** 2).sum(), whole + (rows[side] ** 2).sum()
            for h in range(4):
                for j, pair in enumerate(folded):
                    share = u[h * fold + j]
                    projected[:, h, place] = component
                    q_rope[:, h, place] += share * q[:, h, pair[side]]
                    rest[:, h, pair[side]] = k[:, h, pair[side]] - share * component
    rotary = Rotary(theta=theta)
    wanted = scores(q_rope, projected, rotary, 0.5) + np.einsum("the,she->hts", q, rest) * 0.5
    part = made.decoder.layers[0].attention.sublayer
    up, down, rope_key, key_up = (
        each.weight.detach().double().numpy() for each in (part.query_up, part.kv_down, part.rope_key, part.key_up)
    )
    both = (x @ up.T).reshape(6, 4, 4 + rope)
    k_rope = np.repeat((x @ rope_key.T)[:, None], 4, 1)
    nope = np.einsum("the,she->hts", both[..., :4], (x @ down.T @ key_up.T).reshape(6, 4, 4)) * part.scale
    np.testing.assert_allclose(scores(both[..., 4:], k_rope, rotary, part.scale) + nope, wanted, atol=1e-5)
    layers = [line.error for line in report.lines if line.weight.endswith("rope_key.weight")]
    assert layers[0] >= (lost / whole) ** 0.5 - 1e-6
    assert 0 < apart(model, made) < 2


def test_fewer_features_of_a_head_keep_the_best_products():
    """q^T k of a head in n features is its best approximation of that rank, whatever the factors."""
    model = trained(tiny("llama-2-7b", decoder__layer__attention__rotary=None))
    latent = {**LATENT, "kv_rank": 16, "nope_width": 2, "rope_width": 2}
    made, report = transform(model, af.architecture(model.architecture, changes={ATTENTION: latent}))
    query, key, _ = projections(model)
    part = made.decoder.layers[0].attention.sublayer
    up, down, key_up = (each.weight.detach().double().numpy() for each in (part.query_up, part.kv_down, part.key_up))
    lost = whole = 0.0
    for head in range(4):
        wanted = query[head * 4 : head * 4 + 4].T @ key[head * 4 : head * 4 + 4] * 0.5
        got = up.reshape(4, 4, 16)[head, :2].T @ (key_up @ down).reshape(4, 2, 16)[head] * part.scale
        rest = np.linalg.svd(wanted, compute_uv=False)[2:]
        assert np.linalg.norm(got - wanted) == pytest.approx(np.linalg.norm(rest), rel=1e-4)
        lost, whole = lost + (rest**2).sum(), whole + (wanted**2).sum()
    assert errors(report)["key_up.weight"] >= (lost / whole) ** 0.5 - 1e-6
