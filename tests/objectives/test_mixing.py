"""Mixtures: shares, the same rows for any batch and ranks, one tokenizer, losses by part, what is kept, refusals."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from anyformer.catalogue import architecture
from anyformer.data import Bytes, Corpus, Mixture, Text, prepare
from anyformer.describe import DescriptionError, change_all, from_toml, to_toml
from anyformer.model.transformer import build
from anyformer.objectives import (
    CausalObjective,
    ClassificationObjective,
    LossTraits,
    MaskedObjective,
    Objective,
    Setting,
    loss_of,
)
from anyformer.objectives.feed import Feed
from anyformer.objectives.mixing import MixtureFeed, baseline_of, epochs, held_out_feed, prompt_of, training_feed
from anyformer.plan import Plan
from anyformer.text import DataError
from anyformer.training import Run, train
from anyformer.training.evaluate import evaluate
from anyformer.training.inspection import inspected

LENGTH, BATCH = 16, 8
PLAIN = Plan(precision="fp32", compile="off")


def write(path: Path, texts: list[str]) -> str:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return str(path)


@pytest.fixture
def parts(tmp_path) -> list[dict[str, Any]]:
    """A text in small letters, and a shorter one in capitals."""
    small = write(tmp_path / "small.jsonl", [f"the {n} words of {n * n % 97} are small. " for n in range(150)])
    large = write(tmp_path / "large.jsonl", [f"CAPITALS {n} OF {n * n % 89}! " for n in range(60)])
    return [
        {"data": {"kind": "text", "paths": [small], "validation": 0.2}, "weight": 0.75},
        {"data": {"kind": "text", "paths": [large], "validation": 0.2}, "weight": 0.25},
    ]


def mixture(parts: list[dict[str, Any]], **fields: Any) -> Mixture:
    return Mixture.parse({"tokenizer": {"kind": "bytes"}, "parts": parts, **fields})


def prepared(data: Mixture | Text, tmp_path: Path, **options: Any) -> Corpus:
    return prepare(data, tmp_path / "cache", 1, progress=False, **options)


def fed(
    data: Mixture | Text, corpus: Corpus, objective: Objective | None = None, *, held_out: bool = False, batch: int = BATCH
) -> Feed:
    make = held_out_feed if held_out else training_feed
    return make(objective or CausalObjective(), data, corpus, Setting(corpus.tokenizer, LENGTH, 3, corpus.names), batch)


def capital(tokens: torch.Tensor) -> list[bool]:
    """Whether each row is of the text in capitals: it has no small letter."""
    return [not any(97 <= token <= 122 for token in row) for row in tokens.tolist()]


def test_rows_are_divided_by_the_weights(parts, tmp_path):
    data = mixture(parts)
    feed = fed(data, prepared(data, tmp_path))
    rows = np.arange(1000)
    counts = Counter(capital(feed.drawn(rows, rows).tokens))
    assert counts == {True: 250, False: 750}


def test_a_bound_on_repeats_is_kept(parts, tmp_path):
    data = mixture([parts[0], {**parts[1], "repeats": 1.5}])
    feed = fed(data, prepared(data, tmp_path))
    assert isinstance(feed, MixtureFeed)
    rows = np.arange(4000)
    large = feed.parts["large"].feed
    assert sum(capital(feed.drawn(rows, rows).tokens)) == int(1.5 * large.epoch)
    (_, line) = epochs(feed, 4000)
    assert line.startswith("large: 0.25 of the rows;")
    assert line.endswith(f"{int(1.5 * large.epoch) / large.epoch:.3g} epochs")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=st.sampled_from([1, 2, 4, 8]), step=st.integers(0, 400))
def test_ranks_share_the_batch(parts, tmp_path, world, step):
    data = mixture(parts)
    feed = fed(data, prepared(data, tmp_path))
    whole = feed.at(step)
    assert whole.rows.tolist() == list(range(step * BATCH, (step + 1) * BATCH))
    tokens = torch.cat([feed.at(step, rank, world).tokens for rank in range(world)])
    assert torch.equal(tokens, whole.tokens)
    smaller = fed(data, prepared(data, tmp_path), batch=4)
    assert torch.equal(torch.cat([smaller.at(2 * step + half).tokens for half in (0, 1)]), whole.tokens)


def test_every_tensor_of_a_row_is_that_of_its_part(parts, tmp_path):
    """A joined batch is what each part gives for its rows, whose random choices are those of the global row."""
    objective = MaskedObjective()
    data = mixture(parts)
    corpus = prepared(data, tmp_path, special=objective.special(LENGTH))
    feed = fed(data, corpus, objective)
    assert isinstance(feed, MixtureFeed)
    whole, rows = feed.at(5), np.arange(5 * BATCH, 6 * BATCH)
    which, numbers = feed.shares(rows)
    assert len(set(which.tolist())) == 2
    for place, row in enumerate(rows):
        part = list(feed.parts.values())[which[place]].feed
        alone = part.drawn(numbers[place : place + 1], np.array([row]))
        for each in fields(whole):
            here, there = getattr(whole, each.name), getattr(alone, each.name)
            assert (here is None) == (there is None)
            if here is not None:
                assert torch.equal(here[place : place + 1], there), each.name


def test_one_part_is_that_data_alone(parts, tmp_path):
    data = mixture(parts[:1])
    alone = Text.parse({**parts[0]["data"], "tokenizer": {"kind": "bytes"}})
    corpus = prepared(alone, tmp_path)
    feed, plain = fed(data, prepared(data, tmp_path)), fed(alone, corpus)
    assert isinstance(feed, MixtureFeed)
    assert plain.whole == len(corpus.train) - 1, "the last token has no next one"
    rows = np.arange(1000)

    def texts(feed: Feed) -> Counter[tuple[int, ...]]:
        return Counter(tuple(row) for row in feed.drawn(rows, rows).tokens.tolist())

    assert texts(feed) == texts(plain)


def test_held_out_loss_is_by_shares_and_told_of_each(parts, tmp_path):
    """However many rows each part holds out, its rows count by its share: against a plain sum over rows."""
    data = mixture([parts[0], {**parts[1], "data": {**parts[1]["data"], "validation": 0.6}}])
    corpus = prepared(data, tmp_path)
    model = build(change_all(architecture("llama-2-7b", tiny=True), {"embedding.vocab": 288}), PLAIN, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8)  # so that the losses of the parts differ
    objective, feed = CausalObjective(), fed(data, corpus, held_out=True)
    assert isinstance(feed, MixtureFeed)
    padded = 0
    for most in (None, 12):
        found = evaluate(model, objective, feed, PLAIN, most=most)
        losses, targets = {}, {}
        for name, part in feed.parts.items():
            rows = None if most is None else {"small": 9, "large": 3}[name]
            with torch.no_grad():
                sums = [
                    (float(loss_of(objective, model, x, None)), x.count, int((x.targets >= 0).any(1).sum()))
                    for x in part.feed.once(rows)
                ]
            assert sum(each[2] for each in sums) == part.feed.rows_of(rows)
            padded += sum(len(x.rows) for x in part.feed.once(rows)) - part.feed.rows_of(rows)
            loss, count, number = map(sum, zip(*sums, strict=True))
            losses[name], targets[name] = loss / number, count / number
            assert found.metrics[f"loss of {name}"] == pytest.approx(loss / count, rel=1e-6)
        expected = 0.75 * losses["small"] + 0.25 * losses["large"]
        assert found.loss == pytest.approx(expected / (0.75 * targets["small"] + 0.25 * targets["large"]), rel=1e-6)
        assert abs(found.metrics["loss of small"] - found.metrics["loss of large"]) > 0.2
        assert found.whole == feed.whole
        assert (found.seen == found.whole) == (most is None)
    assert padded, "rows that fill a last batch are among them, and count nothing"
    assert feed.bytes_each == pytest.approx(sum(part.share * (part.feed.bytes_each or 0) for part in feed.parts.values()))


def test_the_baseline_is_that_of_the_parts(parts, tmp_path):
    data = mixture(parts)
    corpus = prepared(data, tmp_path)
    training, held_out = fed(data, corpus), fed(data, corpus, held_out=True)
    found = baseline_of(CausalObjective().baseline, training, 500, held_out, 32, 288)
    assert found is not None
    words, loss = found
    assert "one per part" in words
    each = [
        baseline_of(CausalObjective().baseline, training.parts[name].feed, updates, held_out.parts[name].feed, rows, 288)
        for name, updates, rows in (("small", 375, 24), ("large", 125, 8))
    ]
    assert abs(each[0][1] - each[1][1]) > 0.01
    assert loss == pytest.approx(0.75 * each[0][1] + 0.25 * each[1][1], abs=1e-3)


def test_other_weights_change_nothing_on_disk(parts, tmp_path):
    def times() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*") if path.is_file()}

    first = prepared(mixture(parts), tmp_path)
    before = times()
    changed = mixture([{**parts[0], "weight": 0.1}, {**parts[1], "weight": 0.9}])
    second = prepared(changed, tmp_path)
    kept = {path: at for path, at in times().items() if not path.endswith(".lock")}
    assert kept == {path: at for path, at in before.items() if not path.endswith(".lock")}
    assert first.digest != second.digest
    assert [part.digest for part in first.parts.values()] == [part.digest for part in second.parts.values()]
    third = prepared(mixture([*parts, {**parts[0], "name": "again"}]), tmp_path)
    assert third.parts["again"].directory == first.parts["small"].directory


def test_one_tokenizer_is_learnt_by_the_weights(parts, tmp_path):
    """The tokens of a part that counts more are spelt in fewer pieces, and the special tokens asked for are there."""
    sizes = []
    for weight in (0.02, 50):
        data = mixture([parts[0], {**parts[1], "weight": weight}], tokenizer={"kind": "byte_pairs", "vocab": 300})
        corpus = prepared(data, tmp_path, special=MaskedObjective().special(LENGTH))
        assert corpus.tokenizer.special("mask") < 300
        assert len({part.tokenizer.digest for part in corpus.parts.values()}) == 1
        sizes.append(len(corpus.tokenizer.encode("CAPITALS OF")))
    assert sizes[1] < sizes[0]


def test_held_out_text_teaches_no_tokens(tmp_path):
    train, held = write(tmp_path / "train.jsonl", ["aaaa bbbb"] * 50), write(tmp_path / "held.jsonl", ["zqzqzqzq"] * 500)
    part = {"data": {"paths": [train], "validation_paths": [held]}, "weight": 1.0}
    corpus = prepared(mixture([part], tokenizer={"kind": "byte_pairs", "vocab": 300}), tmp_path)
    assert len(corpus.tokenizer.encode("zqzqzqzq")) == 8


def run_of(data: Mixture, **fields: Any) -> Run:
    model = architecture("llama-2-7b", tiny=True)
    schedule = {"kind": "constant", "warmup": 0}
    return Run.parse(
        {"steps": 3, "batch": 4, "length": LENGTH, "data": data.plain(), "architecture": model.plain(), "schedule": schedule}
        | fields
    ).but(plan=PLAIN)


def test_a_run_tells_each_part(parts, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    run = run_of(mixture(parts))
    assert from_toml(Run, to_toml(run)) == run
    with Console(quiet=False, file=(tmp_path / "said").open("w"), width=200) as console:
        trained = train(run, tmp_path / "run", console=console)
    assert trained.validation is not None
    assert {"loss of small", "loss of large"} <= set(trained.validation.metrics)
    said = (tmp_path / "said").read_text()
    assert "small train: " in said
    assert "large: 0.25 of the rows; " in said
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert "loss of small" in [row for row in rows if row["kind"] == "validation"][-1]["metrics"]


def test_inspection_shows_the_rows_of_the_training(parts, tmp_path):
    run = run_of(mixture(parts))
    corpus = prepared(run.data, tmp_path)
    feed = training_feed(run.objective, run.data, corpus, Setting(corpus.tokenizer, LENGTH, run.seed, corpus.names), run.batch)
    shown = list(inspected(run, corpus, 2, 4))
    assert [[place.number for place in each.sequences[0].places] for each in shown] == feed.at(2).tokens.tolist()
    assert feed.records(np.arange(3)) == [()] * 3
    assert not any(each.sounds for each in shown)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one, two: [], "parts"),
        (lambda one, two: [{**one, "weight": 0.0}, two], "greater than 0"),
        (lambda one, two: [{**one, "weight": -1.0}, two], "greater than 0"),
        (lambda one, two: [{**one, "weight": 1e-6}, two], "less than one row in 1,000"),
        (lambda one, two: [{**one, "repeats": 0.0}, two], "greater than 0"),
        (lambda one, two: [{**one, "repeats": 1.0}, {**two, "repeats": 2.0}], "leave out `repeats` of one"),
        (lambda one, two: [one, one], "two parts are called 'small'"),
        (lambda one, two: [{**one, "name": "x"}, {**two, "name": "x"}], "two parts are called 'x'"),
        (lambda one, two: [one, {**two, "data": {**two["data"], "kind": "pairs"}}], "of one kind of data.*pairs, text"),
        (lambda one, two: [{**one, "data": {**one["data"], "tokenizer": {"kind": "bytes"}}}, two], "set data.tokenizer"),
        (lambda one, two: [{**one, "data": {"kind": "mixture", "parts": [two]}}], "of kind 'mixture'"),
        (lambda one, two: [{**one, "data": {**one["data"], "isolate": True}}, two], "isolate differs"),
    ],
)
def test_what_cannot_be_mixed_is_refused(parts, change, words):
    with pytest.raises(DescriptionError, match=words):
        mixture(change(*parts))


def test_parts_that_the_objective_does_not_read_are_refused(parts):
    with pytest.raises(DescriptionError, match=r"the causal objective is trained on data\.kind = 'text'"):
        run_of(mixture([{**part, "data": {**part["data"], "kind": "labelled"}} for part in parts]))


def test_a_part_that_is_too_short_or_holds_nothing_out_is_named(parts, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    short = write(tmp_path / "short.jsonl", ["ab", "cd"])
    data = mixture([parts[0], {"data": {"paths": [short]}, "weight": 1.0}])
    with pytest.raises(DataError, match=r"^short: the train split has"):
        fed(data, prepared(data, tmp_path))
    none = mixture([parts[0], {**parts[1], "data": {**parts[1]["data"], "validation": 0.0}}])
    with pytest.raises(DataError, match=r"^large: nothing is held out"):
        train(run_of(none), tmp_path / "run", console=Console(quiet=True))


def test_a_file_held_out_by_one_part_and_trained_on_by_another_is_refused(parts, tmp_path):
    (small,) = parts[0]["data"]["paths"]
    held = {"data": {"paths": parts[1]["data"]["paths"], "validation_paths": [small]}, "weight": 1.0}
    with pytest.raises(DataError, match=r"small.jsonl: small trains on it, and large holds it out"):
        prepared(mixture([parts[0], held]), tmp_path)


def test_parts_with_other_classes_are_refused(tmp_path):
    def labelled(name: str, labels: str) -> dict[str, Any]:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"text": f"{n}", "label": labels[n % len(labels)]}) + "\n" for n in range(20)))
        return {"data": {"kind": "labelled", "paths": [str(path)], "validation": 0.3}, "weight": 1.0}

    with pytest.raises(DataError, match="label has a, b in one and a, c in two"):
        prepared(mixture([labelled("one", "ab"), labelled("two", "ac")]), tmp_path)
    data = mixture([labelled("one", "ab"), labelled("three", "ba")])
    objective = ClassificationObjective()
    corpus = prepared(data, tmp_path, special=objective.special(LENGTH))
    assert corpus.names == {"label": ("a", "b")}
    feed = fed(data, corpus, objective)
    assert feed.at(0).targets.shape == (BATCH,)
    assert feed.unit == "records"
    # The records of a sample are those that its row is made of, in whichever part; running text has none.
    records = feed.records(np.arange(BATCH) + 3 * BATCH)
    assert [int(record["label"]) for (record,) in records] == feed.at(3).targets.tolist()


def test_the_bytes_of_a_tokenizer_are_those_of_each_part(parts, tmp_path):
    data = mixture(parts)
    corpus = prepared(data, tmp_path)
    alone = prepared(Text.parse({**parts[1]["data"], "tokenizer": Bytes().plain()}), tmp_path)
    assert corpus.parts["large"].train.tokens[:].tolist() == alone.train.tokens[:].tolist()
    assert len(corpus.validation) == sum(len(part.validation) for part in corpus.parts.values())


def test_prompts_are_those_of_the_parts_in_turn():
    corpus = SimpleNamespace(components={"a": "first", "b": "second", "c": "third"})
    objective = SimpleNamespace(traits=LossTraits(prompt=lambda part, number: f"{part} {number}"))
    assert [prompt_of(objective, corpus, n) for n in (0, 1, 2, 3, 7)] == [
        "first 0",
        "second 0",
        "third 0",
        "first 1",
        "second 2",
    ]
