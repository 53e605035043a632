"""Another engine is taken where it was proved to compute the same, and texts are then the same, whatever is asked of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread

import pytest
import torch

from anyformer import checkpoint, engines
from anyformer.catalogue.mistral import mistral
from anyformer.describe import InputError
from anyformer.engines import converted, converting, proof
from anyformer.generation import Beams, Lookup, Sampling, generate, generated
from anyformer.generation.processors import RepetitionPenalty
from anyformer.loading import load
from anyformer.model.transformer import build
from engines.conftest import TINY


def asked(place, **more):
    return engines.Asked(Path(place), engines.ModelLoading(place, lambda: load(place)), **more)


def unread(place, **more):
    return engines.Asked(place, engines.ModelLoading(place, lambda: pytest.fail("the weights are not needed")), **more)


PROMPTS = ["Once upon", "a", "the model of the text", "end"]
WAYS = {
    "greedy": {"sampling": Sampling(temperature=0)},
    "drawn": {"sampling": Sampling(temperature=0.9, top_p=0.9, seed=5)},
    "penalties": {"sampling": Sampling(temperature=1, top_k=40, processors=(RepetitionPenalty(penalty=1.3),))},
    "answers": {"sampling": Sampling(temperature=1.1, seed=2), "answers": 3},
    "two at a time": {"sampling": Sampling(temperature=1), "batch": 2, "ends": [101]},
    "logprobs": {"sampling": Sampling(temperature=0), "logprobs": 3},
    "stop": {"sampling": Sampling(temperature=1, seed=4), "stop": ["e", "\x07"], "compile": False},
}


@pytest.mark.parametrize("way", WAYS)
def test_texts_are_the_same(place, engine, way):
    opened = engines.opened("auto", asked(place))
    assert opened.places is not None
    assert next(opened.model.parameters()).is_meta, "its weights are not read twice"
    own, settings = engines.opened("own", asked(place)), {"max_tokens": 14, **WAYS[way]}
    mine = generated(own.model, own.tokenizer, PROMPTS, **settings)
    theirs = generated(opened.model, opened.tokenizer, PROMPTS, places=opened.places, **settings)
    assert [(each.prompt, each.text, each.tokens, each.reason) for each in theirs] == [
        (each.prompt, each.text, each.tokens, each.reason) for each in mine
    ]
    for one, other in zip(mine, theirs, strict=True):
        for mine_of, its in zip(one.chances, other.chances, strict=True):
            assert its.logprob == pytest.approx(mine_of.logprob, abs=1e-4)


def test_a_file_is_made_and_proved_once(place, engine):
    first = engines.opened("auto", asked(place))
    assert engine.does == ["write", "read"]
    assert first.line.startswith("engine: stand-in 1.0, proved on 3 rows, largest difference ")
    again = engines.opened("auto", unread(place))
    assert engine.does == ["write", "read", "read"]
    assert again.line == first.line
    assert again.tokenizer is not None
    assert generate(again.model, again.tokenizer, "Once", places=again.places, max_tokens=3) is not None


def test_a_proof_holds_of_the_versions_that_it_was_made_with(place, engine):
    engines.opened("auto", asked(place))
    engine.version, engine.wrong = "1.1", 0.01
    assert engines.opened("auto", asked(place)).places is None
    assert engine.does == ["write", "read", "read"], "the file stays"


@pytest.mark.parametrize(("wrong", "after"), [(2e-4, 0), (0.3, 5), (float("nan"), 3)])
def test_a_wrong_engine_is_refused_by_its_proof(place, engine, wrong, after):
    engine.wrong, engine.after = wrong, after
    opened = engines.opened("auto", asked(place))
    assert opened.places is None
    assert opened.line.startswith("engine: own (stand-in: it computes something else (")
    with pytest.raises(engines.EngineRefusedError, match=r"^--engine stand-in: it computes something else "):
        engines.opened("stand-in", asked(place))
    assert engine.does == ["write", "read"], "that it failed is kept"


def test_what_other_additions_make_is_allowed(place, engine):
    engine.wrong = 5e-5
    assert engines.opened("auto", asked(place)).places is not None


def test_other_rounding_is_for_who_names_the_engine(place, engine, tmp_path):
    model, tokenizer = load(place)
    checkpoint.save(model.to(torch.bfloat16), tmp_path / "narrow", tokenizer=tokenizer)
    narrow = asked(tmp_path / "narrow")
    assert engines.opened("auto", narrow).line == (
        "engine: own (stand-in: with weights in bf16 it rounds otherwise, so texts would differ)"
    )
    assert engine.does == []
    opened = engines.opened("stand-in", narrow)
    assert opened.places is not None
    assert opened.line.startswith("engine: stand-in 1.0, bf16, ")
    engine.version, engine.wrong = "2.0", 0.2
    with pytest.raises(engines.EngineRefusedError, match="something else"):
        engines.opened("stand-in", narrow)


def test_what_is_beyond_it_is_said_before_any_work(place, engine):
    more = unread(place, beside=("images", "--draft"))
    with pytest.raises(engines.EngineRefusedError, match=r"^--engine stand-in: it does not do images and --draft$"):
        engines.opened("stand-in", more)
    with pytest.raises(engines.EngineRefusedError, match="there is cuda"):
        engines.opened("stand-in", replace(more, beside=(), device="cuda"))
    assert engines.opened("auto", asked(place, beside=more.beside)).places is None
    engine.installed = False
    with pytest.raises(engines.EngineRefusedError, match="not installed: make one"):
        engines.opened("stand-in", replace(more, beside=()))
    assert engines.opened("auto", asked(place)).line == "", "nothing is said of what is not there"
    assert engine.does == []


def test_an_unknown_type_is_refused(place, engine, cache):
    engine.knows = False
    assert engines.opened("auto", asked(place)).line == "engine: own (stand-in: it does not know this type)"
    assert [path for path in cache.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"beams": Beams(count=2)}, "beams"),
        ({"draft": Lookup()}, "draft"),
        ({"compile": True, "draft": Lookup()}, "draft and compile"),
    ],
)
def test_what_the_model_itself_does_is_refused_with_places(place, engine, settings, words):
    opened = engines.opened("auto", asked(place))
    with pytest.raises(InputError, match=f"leave {words} out"):
        generate(opened.model, opened.tokenizer, "a", places=opened.places, **settings)


def test_other_weights_are_another_file(place, engine, tmp_path, cache):
    engines.opened("auto", asked(place))
    model, tokenizer = load(place)
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1
    checkpoint.save(model, tmp_path / "other", tokenizer=tokenizer)
    engines.opened("auto", asked(tmp_path / "other"))
    assert engine.does == ["write", "read"] * 2
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 2


def test_files_are_kept_up_to_a_limit(place, engine, tmp_path, cache, monkeypatch):
    size = engine.size(load(place)[0], "f32")
    monkeypatch.setenv("ANYFORMER_ENGINES_GB", str(1.9 * size / 1e9))
    engines.opened("auto", asked(place))
    (first,) = [path for path in cache.iterdir() if path.is_dir()]
    killed, working = cache / ".partial-killed", cache / ".partial-working"
    killed.mkdir()
    working.mkdir()
    os.utime(killed, (0, 0))
    model, tokenizer = load(place)
    checkpoint.save(model, tmp_path / "other", tokenizer=tokenizer, facts={"other": True})
    assert engines.opened("auto", asked(tmp_path / "other")).places is not None
    assert not first.exists(), "the one that was not used for longest goes"
    assert not killed.exists()
    assert working.exists()
    monkeypatch.setenv("ANYFORMER_ENGINES_GB", "1e-9")
    engine.does.clear()
    checkpoint.save(model, tmp_path / "third", tokenizer=tokenizer, facts={"other": False})
    assert "GB are kept at most (ANYFORMER_ENGINES_GB)" in engines.opened("auto", asked(tmp_path / "third")).line
    monkeypatch.setenv("ANYFORMER_ENGINES_GB", "much")
    assert "should be a number of gigabytes" in engines.opened("auto", asked(tmp_path / "third")).line
    assert engine.does == []


def test_a_damaged_entry_is_made_again(place, engine, cache):
    engines.opened("auto", asked(place))
    (entry,) = [path for path in cache.iterdir() if path.is_dir()]
    (entry / converted.DESCRIPTION).write_text("{")
    (entry / converted.PROOF).write_text('{"largest": 0}')
    assert engines.opened("auto", asked(place)).places is not None
    assert engine.does == ["write", "read"] * 2
    (entry / "model.safetensors").unlink()
    assert engines.opened("auto", asked(place)).places is not None
    assert engine.does[4:] == ["write", "read"]


def test_one_process_at_a_time_makes_a_file(place, engine):
    found, both = [], Barrier(2)

    def start():
        both.wait()
        found.append(engines.opened("auto", asked(place)))

    threads = [Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each.places is not None for each in found)
    assert engine.does.count("write") == 1


def test_probes_reach_beyond_a_window(monkeypatch):
    windowed = build(mistral(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=64, window=70), seed=0)
    (length,) = proof.changes(windowed, 4096)
    assert 69 <= length <= 71
    assert max(map(len, proof.probes(windowed))) > 70 + proof.BEYOND // 2
    assert proof.changes(build(TINY), 4096) == []
    assert [len(row) for row in proof.probes(build(TINY))] == [1, 9, 40]
    monkeypatch.setattr(proof, "WORK", 10**4)
    with pytest.raises(engines.EngineRefusedError, match=r"beyond 7. tokens would take long to prove"):
        proof.probes(windowed)


def test_where_files_are_known_by_their_contents(place, monkeypatch):
    monkeypatch.setattr(converted, "SETTLED", -(10**12))
    file = place / "model.safetensors"
    known = converted.digest_of(file)
    monkeypatch.setattr(converted, "sha256", lambda path: pytest.fail("it was read before"))
    assert converted.digest_of(file) == known
    assert converting.KEPT.limit == 20e9
