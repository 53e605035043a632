"""Dictionaries of another model's activations: what is learnt, what is told, and what is refused."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from anyformer import build, checkpoint
from anyformer.catalogue import architecture
from anyformer.cli.ending import uses
from anyformer.data import IGNORED
from anyformer.describe import UserError, to_toml
from anyformer.model import dictionary_alone
from anyformer.objectives import CrosscoderObjective, Examples, SAEObjective, TranscoderObjective, prepared
from anyformer.objectives.objective import without_penalties
from anyformer.parts import Dictionary, GatedCode, JumpReLUCode, MeanLength, ReLUCode, Revival, TopKCode
from anyformer.parts.call.reports import Auxiliary
from anyformer.training.partners import check_partners
from anyformer.training.priced import counted_flops, flops_of, step_of
from anyformer.training.run import default_run

SOURCE = architecture("llama-2-7b", tiny=True)
WIDTH, FEATURES = SOURCE.width, 40
PATH, OTHER = "decoder.layer[0].output", "decoder.layer[1].output"
SAE = SAEObjective(source="there", path=PATH)


def examples():
    """Three rows of text, the last of which ends early."""
    tokens = torch.randint(0, SOURCE.embedding.vocab, (3, 6), generator=torch.Generator().manual_seed(1))
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[2, 4:] = True
    targets = tokens.roll(-1, 1).masked_fill(padding, IGNORED)
    return Examples(tokens, targets, None, torch.arange(3), padding=padding, counts=(~padding).sum(1).double())


@pytest.fixture(scope="module")
def source():
    return build(SOURCE, seed=5).eval().requires_grad_(False)


def model_of(width=WIDTH, **fields):
    return build(dictionary_alone(Dictionary(features=FEATURES, **fields), width, 1.0), seed=2).eval()


def loss_of(objective, model, given):
    return objective.signal(model, given, None, Auxiliary(objective.counted(given)), {})


def test_what_is_read_and_learnt_are_the_values_at_the_paths(source):
    given = examples()
    with source.watch(PATH, OTHER) as seen:
        source(given.tokens, padding=given.padding)
    first, second = seen[PATH], seen[OTHER]
    both = torch.cat([first, second], -1)
    for objective, read, written in (
        (SAE, first, first),
        (SAE.but(path="decoder.layer[-2].output"), first, first),
        (SAE.but(path="decoder.layer[-1].output"), second, second),
        (TranscoderObjective(source="there", path=PATH, target=OTHER), first, second),
        (CrosscoderObjective(source="there", paths=(OTHER, PATH)), both.roll(WIDTH, -1), both.roll(WIDTH, -1)),
    ):
        found = prepared(objective, given, {"source": source})
        for ours, theirs in ((found.tokens, read), (found.targets, written)):
            torch.testing.assert_close(ours[~given.padding], theirs[~given.padding])
        assert torch.equal(found.counts, given.counts)


def test_the_loss_is_its_formula(source):
    """|s (y' - y)|^2 + sparsity * share * L1 over the positions that are no padding; the penalty rises with the rows."""
    objective = SAE.but(sparsity=0.7, rise=2)
    model, given = model_of(code=ReLUCode(), length=MeanLength()), prepared(SAE, examples(), {"source": source})
    name = "encoder.layers.0.dictionary.sublayer"
    model.get_parameter(f"{name}.length.length").data.fill_(2.0)
    encoder, decoder = (model.get_parameter(f"{name}.{one}.weight") for one in ("encoder", "decoder"))
    scale, total = WIDTH**0.5 / 2, 0.0
    for row in range(3):
        for t in range(6 if row < 2 else 4):
            y = given.tokens[row, t] * scale
            active = torch.relu(encoder @ y)
            l1 = sum(f * decoder[:, i].norm() for i, f in enumerate(active))
            total += (decoder @ active - y).square().sum() + 0.7 * min((row + 1) / 2, 1) * l1
    torch.testing.assert_close(loss_of(objective, model, given), total, rtol=1e-4, atol=1e-3)
    alone = loss_of(without_penalties(objective), model, given)
    torch.testing.assert_close(alone, loss_of(SAE, model, given))


@torch.no_grad()
def test_metrics_are_those_of_their_definitions(source):
    model, raw = model_of(code=TopKCode(k=3)), examples()
    statistics = SAE.statistics(model, raw, Auxiliary(SAE.counted(raw)), {"source": source})
    metrics = SAE.metrics(statistics, {})
    given, valid = prepared(SAE, raw, {"source": source}), ~raw.padding
    said, y = model(given.tokens)[valid], given.tokens[valid]
    variance = (y - y.mean(0)).square().sum()
    torch.testing.assert_close(
        metrics["explained_variance"], float(1 - (y - said).square().sum() / variance), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(metrics["mse"], float((y - said).square().sum(1).mean()), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(metrics["mean_activation"], float(variance / len(y)), rtol=1e-5, atol=1e-5)
    assert 0 < metrics["l0"] <= 3
    assert 0 <= metrics["dead"] < 1

    def loss(change):
        with source.patch(PATH, change):
            logits = source(raw.tokens, padding=raw.padding)
        return float(F.cross_entropy(logits.flatten(0, 1), raw.targets.flatten(), ignore_index=IGNORED))

    clean, zeros, rebuilt = (loss(change) for change in (lambda v: v, lambda v: 0 * v, lambda v: model(v)))
    torch.testing.assert_close(metrics["loss_recovered"], (zeros - rebuilt) / (zeros - clean), rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_a_crosscoder_puts_each_part_in_its_place(source):
    """A dictionary that says zeros loses what zeros at both paths lose."""
    objective = CrosscoderObjective(source="there", paths=(PATH, OTHER))
    model, raw = model_of(2 * WIDTH, blocks=2), examples()
    for weight in model.parameters():
        weight.data.zero_()
    found = objective.metrics(objective.statistics(model, raw, Auxiliary(objective.counted(raw)), {"source": source}), {})
    assert found["rebuilt_loss"] == pytest.approx(found["zeros_loss"])
    assert found["dead"] == 1


@pytest.mark.parametrize(
    ("changes", "part", "words"),
    [
        ({"sparsity": 1.0}, Dictionary(features=9, code=TopKCode(k=2)), "chooses few features by itself"),
        ({"revival": 1.0}, Dictionary(features=9, code=TopKCode(k=2)), r"set revival = \{\} in the dictionary"),
    ],
)
def test_factors_of_what_is_not_there_are_refused(changes, part, words):
    with pytest.raises(ValueError, match=words):
        SAE.but(**changes).check(dictionary_alone(part, WIDTH))
    fits = Dictionary(features=9, code=JumpReLUCode(), revival=Revival())
    SAE.but(**changes).check(dictionary_alone(fits, WIDTH))


def test_architectures_without_one_dictionary_are_refused():
    with pytest.raises(ValueError, match="reads tokens: set embedding"):
        SAE.check(SOURCE)
    whole = dictionary_alone(Dictionary(features=9), WIDTH)
    with pytest.raises(ValueError, match="this architecture has 2"):
        SAE.check(whole.but(encoder=whole.encoder.but(order="layer*2")))


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (SAE.but(path="decoder.layer[0].attention.weights"), "no vector of a fixed size"),
        (SAE.but(path="head.logits"), "set architecture.width"),
        (SAE.but(path="decoder.layer[9].output"), r"objective.source = 'there' at the path decoder.layer\[9\]"),
        (SAE.but(path="decoder.layer[*].output"), r"names \d values: give the path of one, as decoder.layer\[0\].output"),
        (TranscoderObjective(source="there", path=PATH, target="head.logits"), "and the dictionary gives"),
    ],
)
def test_paths_without_such_vectors_are_refused(objective, words):
    check = objective.partners["source"].check
    with pytest.raises(ValueError, match=words):
        check(SOURCE, dictionary_alone(Dictionary(features=9), WIDTH))


def test_paths_are_told_apart():
    with pytest.raises(ValueError, match="kind = 'sae' learns what it reads"):
        TranscoderObjective(source="there", path=PATH, target=PATH)
    with pytest.raises(ValueError, match="names a path twice"):
        CrosscoderObjective(source="there", paths=(PATH, PATH))
    with pytest.raises(ValueError, match="gives no logits of tokens"):
        SAEObjective.parse(SAE.plain() | {"of": {"kind": "contrastive"}})


def test_a_source_of_another_width_is_refused_before_any_work(tmp_path):
    checkpoint.save(build(SOURCE, seed=0), tmp_path / "there")
    for width in (WIDTH, WIDTH + 1):
        objective = SAEObjective(source=str(tmp_path / "there"), path=PATH)
        run = default_run(dictionary_alone(Dictionary(features=9), width), ("python-stdlib",), objective)
        with pytest.raises(UserError, match=r"set architecture\.width") if width > WIDTH else nullcontext():
            check_partners(run)


def test_a_source_that_is_not_there_is_refused_in_words(tmp_path):
    objective = SAEObjective(source=str(tmp_path / "nowhere"), path=PATH)
    run = default_run(dictionary_alone(Dictionary(features=9), WIDTH), ("python-stdlib",), objective)
    with pytest.raises(UserError, match=r"nowhere:\s+there is no such directory"):
        check_partners(run)


@pytest.mark.parametrize(
    ("part", "factors", "products"),
    [
        (Dictionary(features=9, code=TopKCode(k=2), revival=Revival()), {}, 0),
        (Dictionary(features=9, code=TopKCode(k=2), revival=Revival()), {"revival": 1 / 32}, 3),
        (Dictionary(features=9, code=GatedCode()), {}, 0),
        (Dictionary(features=9, code=GatedCode()), {"sparsity": 0.1}, 2),
        (Dictionary(features=9, code=GatedCode(), revival=Revival()), {"sparsity": 0.1, "revival": 1.0}, 5),
    ],
)
def test_what_the_loss_decodes_beside_the_reconstruction_is_priced(tmp_path, part, factors, products):
    checkpoint.save(build(SOURCE, seed=5), tmp_path / "there")
    objective = SAEObjective(source=str(tmp_path / "there"), path=OTHER, **factors)
    run = default_run(dictionary_alone(part, WIDTH, 1.0), ("python-stdlib",), objective)
    step = step_of(run)
    assert flops_of(run) == run.accumulation * counted_flops(step, run.piece, run.plan)
    plain = step_of(run.but(objective=SAEObjective(source=str(tmp_path / "there"), path=OTHER)))
    more = step.flops(run.piece, run.plan) - plain.flops(run.piece, run.plan)
    assert more == products * 2 * run.piece.rows * 9 * WIDTH


def test_the_end_of_a_run_names_what_uses_a_dictionary(tmp_path):
    for objective, code, exported in (
        (SAE, TopKCode(k=2), True),
        (TranscoderObjective(source="there", path=PATH, target="decoder.output"), TopKCode(k=2), False),
    ):
        part = Dictionary(features=9, code=code, centred=exported, detached=not exported)
        model = build(dictionary_alone(part, WIDTH), seed=0)
        (tmp_path / "run.toml").write_text(to_toml(default_run(model.architecture, ("python-stdlib",), objective)))
        found = uses(SimpleNamespace(directory=tmp_path, model=model))
        assert found[0] == ("inspect", "there", "--text", "TEXT", "--features", tmp_path)
        assert [each[-1] for each in found[1:]] == ["saelens"] * exported
