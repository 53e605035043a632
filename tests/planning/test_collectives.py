"""What is foretold of collectives is what processes once sent: the committed counts of every mode and architecture."""

from __future__ import annotations

import json

import pytest
from benchmarks.equality import BATCH, LENGTH, MODES, Case, pieces_of, run_of, written
from benchmarks.exchanges import RESULT, Exchange

from anyformer.objectives import Setting, divides_logits
from anyformer.objectives.mixing import training_feed
from anyformer.planning.collectives import Workload, exchanged
from anyformer.planning.held_weights import held
from anyformer.training.held_out import corpus_of
from covering import cover

COUNTED = [Exchange(**row) for row in json.loads(RESULT.read_text(encoding="utf-8"))["results"]]


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def lengths(tmp_path_factory) -> dict[str, tuple[int, int]]:
    """Positions of the stream and of the source, by architecture."""
    text = tmp_path_factory.mktemp("text") / "text.txt"
    written(text)
    found = {}
    for name in {Case.of(each.case).architecture for each in COUNTED}:
        run = run_of(Case(name, "data", "adamw"), text, 1, 1)
        corpus = corpus_of(run)
        feed = training_feed(run.objective, run.data, corpus, Setting(corpus.tokenizer, LENGTH, 0, corpus.names), 1)
        one = feed.at(0)
        found[name] = (LENGTH, 0) if one.decoder_tokens is None else (one.decoder_tokens.shape[1], one.tokens.shape[1])
    return found


COUNTS = {f"{each.ranks} {each.case}": each for each in COUNTED}


def differing(name: str) -> frozenset[tuple[str, ...]]:
    """What a count depends on: what of an architecture a mode divides, the number of processes, the form."""
    ranks, _, text = name.partition(" ")
    case = Case.of(text)
    return frozenset({(case.mode, case.architecture), (case.mode, ranks), (case.mode, case.form), (case.optimiser,)})


FEW = cover({name: name for name in COUNTS}, differing)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["few", "all"])
def test_every_committed_count_is_foretold(lengths, tmp_path, whole):
    assert len(COUNTED) > 200
    for each in COUNTED if whole else [COUNTS[name] for name in sorted(FEW)]:
        case = Case.of(each.case)
        mesh = MODES[case.mode][each.ranks]
        run = run_of(case, tmp_path / "text.txt", pieces_of(mesh, case.form), mesh.all_chunks)
        length, source = lengths[case.architecture]
        count = pieces_of(mesh, case.form) * mesh.replicas
        pieces = Workload(count, BATCH // count, length, source)
        vocabulary = divides_logits(run.objective)
        foretold = exchanged(run.architecture, mesh, pieces, vocabulary=vocabulary)
        assert {" ".join(key): size for key, size in foretold.items()} == dict(each.counted), (each.ranks, each.case)
        assert held(run.architecture, mesh, vocabulary=vocabulary) == each.held, (each.ranks, each.case)
