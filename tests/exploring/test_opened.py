"""A model opened in the explorer: what it is told to show is what `anyformer.inspect` and the model itself say."""

from __future__ import annotations

import time
from base64 import b64decode
from multiprocessing import active_children

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

import anyformer as af
from anyformer import catalogue
from anyformer.evaluation.learnt_at import open_dictionary
from anyformer.exploring import opened, workshop
from anyformer.exploring.desk import Desk
from anyformer.exploring.memory import MemoryDesk
from anyformer.exploring.opened import OpenedText
from anyformer.exploring.opening_desk import OpeningDesk, checkpoints_of, values_of
from anyformer.exploring.server import application
from anyformer.exploring.tree import tree
from anyformer.exploring.workshop import Workshop, told
from anyformer.generation.sampling import GREEDY
from anyformer.huggingface.saelens import export_saelens
from anyformer.model import dictionary_alone
from anyformer.parts import Dictionary
from text.chat.folders import LOGICS, plain, write_model

TEXT, OTHER = "a b c a b", "a b c b a"


class InPlace(Workshop):
    """A workshop without a process."""

    def ask(self, key, work, *given):
        return {"pending": False, **told(work, given)}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model with a tokenizer, in Hugging Face's layout."""
    place = tmp_path_factory.mktemp("opened")
    write_model(place, plain(LOGICS["thinking"]))
    return place / "model"


@pytest.fixture(scope="module")
def dictionaries(model, tmp_path_factory):
    """Directories of SAELens: one of the stream behind layer 0, one of another width, and one that names no path."""
    place, (loaded, _), found = tmp_path_factory.mktemp("dictionaries"), af.load(model), {}
    for name, width, metadata in (
        ("of layer 0", loaded.architecture.width, {"hook_name": "blocks.0.hook_resid_post"}),
        ("wide", loaded.architecture.width + 1, {"hook_name": "blocks.0.hook_resid_post"}),
        ("of nothing", loaded.architecture.width, {}),
    ):
        made = af.build(dictionary_alone(Dictionary(features=30), width, 1.0), seed=4)
        export_saelens(made, place / name, metadata=metadata)
        found[name] = place / name
    return found


@pytest.fixture(scope="module")
def ask(model, dictionaries):
    desk = Desk([str(model), "gpt2", *map(str, dictionaries.values())])
    models = OpeningDesk(desk)
    models.workshop = InPlace("")
    page = TestClient(application(desk, MemoryDesk(), models), base_url="http://127.0.0.1")

    def asked(address, status=200, **query):
        answer = page.get(address, params={"of": str(model), **query})
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


def test_a_text_is_read_at_every_layer(ask, model):
    found = ask("/api/open", text=TEXT)
    loaded, tokenizer = af.load(model)
    ids = tokenizer.encode(TEXT)
    assert [token["id"] for token in found["tokens"]] == ids
    assert "".join(token["text"] for token in found["tokens"]) == TEXT
    lens = af.inspect.logit_lens(loaded, torch.tensor([ids]))
    assert found["lens"]["paths"] == list(lens.paths)
    assert np.array(found["lens"]["probabilities"]) == pytest.approx(lens.probabilities_LBTk[:, 0].numpy(), abs=1e-5)
    with torch.no_grad():
        likeliest = loaded(torch.tensor([ids]))[0].argmax(-1)
    assert found["lens"]["says"] == [tokenizer.decode([int(token)]) for token in likeliest]
    heads = af.inspect.head_patterns(loaded, torch.tensor([ids]))
    assert [(each["path"], each["induction"]) for each in found["heads"]] == [(each.path, each.induction) for each in heads]


def test_attention_is_that_of_the_model(ask, model):
    loaded, tokenizer = af.load(model)
    (path, *_) = af.inspect.attention_paths(loaded)
    found = ask("/api/attention", text=TEXT, path=path)
    weights = af.inspect.attention_patterns(loaded, torch.tensor([tokenizer.encode(TEXT)]))[path][0]
    for told_bytes, head in zip(found["heads"], weights, strict=True):
        cells = np.frombuffer(b64decode(told_bytes), np.uint8).reshape(found["queries"], found["keys"]) / 255
        assert cells == pytest.approx(head.numpy(), abs=1 / 255 + 1e-6)
    other = path.replace(".weights", ".key")
    assert "attention weights have BHTS" in ask("/api/attention", text=TEXT, path=other)["why"]


def test_the_strongest_entries_of_a_token_are_its_largest(ask, model):
    loaded, tokenizer = af.load(model)
    path = next(path for path in loaded.watchable() if path.endswith("feedforward.hidden"))
    found = ask("/api/value", text=TEXT, path=path, position=2)
    with torch.no_grad(), loaded.watch(path) as seen:
        loaded(torch.tensor([tokenizer.encode(TEXT)]))
    value = seen[path][0]
    assert found["norms"] == pytest.approx(value.norm(dim=1).tolist(), abs=1e-4)
    sizes = [abs(each["value"]) for each in found["strongest"]]
    assert sizes == sorted(sizes, reverse=True)
    for each in found["strongest"]:
        assert each["value"] == pytest.approx(float(value[2][tuple(each["at"])]), abs=1e-5)
    assert sizes[0] == pytest.approx(float(value[2].abs().max()), abs=1e-5)
    assert "the text has" in ask("/api/value", text=TEXT, path=path, position=99)["why"]


def test_the_token_that_is_asked_about_is_the_likeliest_or_the_one_named(ask, model):
    loaded, tokenizer = af.load(model)
    tokens = torch.tensor([tokenizer.encode(TEXT)])
    with torch.no_grad():
        logits = loaded(tokens)[0]
    usual = ask("/api/open", text=TEXT)
    best = logits[-1].topk(opened.OFFERED).indices.tolist()
    words = [tokenizer.decode([each], special=True) for each in best]
    named = [tokenizer.encode(word) == [each] for each, word in zip(best, words, strict=True)]
    assert [(each["text"], each["named"]) for each in usual["asked"]["likeliest"]] == list(zip(words, named, strict=True))
    assert (usual["asked"]["wanted"], usual["asked"]["position"]) == (words[0], tokens.shape[1] - 1)
    assert usual["attribution"]["logit"] == pytest.approx(float(logits[-1].max()), abs=1e-4)
    found = ask("/api/open", text=TEXT, wanted="b", other="a", position="1")
    (b,), (a,) = tokenizer.encode("b"), tokenizer.encode("a")
    assert found["asked"]["about"] == "logit of b less a"
    assert found["attribution"]["logit"] == pytest.approx(float(logits[1, b] - logits[1, a]), abs=1e-4)
    told = found["attribution"]
    assert sum(share for _, share in told["shares"]) + told["of_others"] + told["rest"] == pytest.approx(
        told["logit"], abs=1e-3
    )
    assert set(found["lens"]["says"]) == {"b"}
    assert found["lens"]["wanted"][-1] == pytest.approx(logits.softmax(-1)[:, b].tolist(), abs=1e-5)
    assert found["lens"]["difference"][-1] == pytest.approx((logits[:, b] - logits[:, a]).tolist(), abs=1e-4)
    assert usual["lens"]["difference"] is None
    assert found["lens"]["rank"][-1] == (logits > logits[:, b, None]).sum(-1).tolist()


def test_a_whole_stream_of_the_other_text_goes_all_of_the_way(ask, model):
    loaded, tokenizer = af.load(model)
    found = ask("/api/patch", text=TEXT, against=OTHER, wanted="b", other="a")
    (b,), (a,) = tokenizer.encode("b"), tokenizer.encode("a")
    for name, text in (("clean", TEXT), ("corrupted", OTHER)):
        with torch.no_grad():
            logits = loaded(torch.tensor([tokenizer.encode(text)]))[0, -1]
        assert found[name] == pytest.approx(float(logits[b] - logits[a]), abs=1e-5)
    last = found["stream"]["restored"][-1]
    assert last[-1] == pytest.approx(1, abs=1e-3)
    assert last[:-1] == pytest.approx([0] * (len(last) - 1), abs=1e-3)
    assert found["heads"]["paths"] == [each.by_head for each in af.inspect.writers(loaded) if each.heads]
    assert ("hardly differ" in found["remark"]) == (abs(found["clean"] - found["corrupted"]) < 0.1)


def test_what_cannot_be_asked_of_a_text_is_refused(ask):
    assert "as many tokens of both" in ask("/api/patch", text=TEXT, against="a")["why"]
    assert "wanted 'a b': is 3 tokens (a ␣ b)" in ask("/api/open", text=TEXT, wanted="a b")["why"]
    assert "other 'ab': is 2 tokens (a b)" in ask("/api/patch", text=TEXT, against=OTHER, other="ab")["why"]
    assert "position 99: the text has 8 tokens" in ask("/api/open", text=TEXT, position=99)["why"]
    assert "say which" in ask("/api/patch", 400, text=TEXT)["errors"][0]["text"]


def test_dictionaries_beside_a_model_say_where_they_fit(ask, dictionaries):
    found = {each["of"]: each for each in ask("/api/dictionaries")["dictionaries"]}
    fits, wide, nothing = (found[str(path)] for path in dictionaries.values())
    assert (fits["read"], fits["features"], fits["why"]) == (["decoder.layer[0].output"], 30, None)
    assert "reads" in wide["why"]
    assert "no hook of TransformerLens" in nothing["why"]


def test_features_of_a_token_and_where_one_is_active(ask, model, dictionaries):
    path = dictionaries["of layer 0"]
    loaded, tokenizer = af.load(model)
    made = open_dictionary(path, loaded)
    reading = made.reading(torch.tensor([tokenizer.encode(TEXT)]))
    found = ask("/api/features", text=TEXT, dictionary=str(path), position="2")
    strongest = reading.strongest(position=2)
    assert [(each["feature"], each["activation"]) for each in found["active"]] == [
        (feature, pytest.approx(value, abs=1e-5)) for feature, value in strongest
    ]
    said = made.tokens([feature for feature, _ in strongest])
    words = [[tokenizer.decode([token]) for token, _ in tokens] for tokens in said]
    assert [each["tokens"] for each in found["active"]] == words
    assert found["count"] == int((reading.active_BTF[0, 2] > 0).sum())
    number = strongest[0][0]
    one = ask("/api/feature", text=TEXT, dictionary=str(path), feature=str(number))
    assert one["activations"] == pytest.approx(reading.of(number).tolist(), abs=1e-5)
    assert one["tokens"] == words[0]


def test_dictionaries_that_were_not_opened_or_do_not_fit_are_refused(ask, model, dictionaries):
    asked = {"text": TEXT, "dictionary": str(dictionaries["of layer 0"])}
    assert "none that was opened" in ask("/api/features", 404, **{**asked, "dictionary": str(model)})["errors"][0]["text"]
    assert "there is no feature 30" in ask("/api/feature", **asked, feature="30")["why"]
    assert "whole number" in ask("/api/feature", 400, **asked, feature="x")["errors"][0]["text"]
    assert "reads" in ask("/api/features", **{**asked, "dictionary": str(dictionaries["wide"])})["why"]
    assert "of a sparse dictionary open the source model" in ask("/api/open", of=asked["dictionary"], text=TEXT)["why"]


def test_every_value_is_in_a_part_of_the_sheet():
    for name in ("gemma-2-2b", "deepseek-v3", "t5-small"):
        made = catalogue.architecture(name)
        parts = {part.path for part in tree(made)}
        values = values_of(made)
        assert {each["part"] for each in values} <= parts - {""}
        weights = [each for each in values if each["path"].endswith("attention.weights") and each["layer"] == 1]
        assert all(each["part"].endswith("attention") for each in weights)
    local = next(each for each in values_of(catalogue.architecture("gemma-2-2b")) if each["layer"] == 1)
    assert local["part"] == "decoder.global"


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ({"text": ""}, 400, "say which"),
        ({"text": "x" * 4001}, 400, "at most 4,000 letters"),
        ({"of": "gpt2", "text": TEXT}, 400, "has no weights here"),
        ({"of": "/etc", "text": TEXT}, 404, "was not opened"),
        ({"text": TEXT, "path": "x"}, 400, "has no 'path'"),
    ],
)
def test_what_cannot_be_opened_is_refused(ask, query, status, says):
    assert says in ask("/api/open", status, **query)["errors"][0]["text"]


def test_a_path_that_is_none_is_refused_with_the_nearest(ask):
    (found,) = ask("/api/attention", 400, text=TEXT, path="decoder.layer[0].attention.weight")["errors"]
    assert "decoder.layer[0].attention.weights" in found["suggestions"]
    for position in ("--1", "x", "9" * 20):
        assert ask("/api/value", 400, text=TEXT, path="embedding.output", position=position)["errors"]


def test_a_text_of_too_many_tokens_is_not_read(ask):
    assert "1 to 128 tokens" in ask("/api/open", text="a b " * 900)["why"]


def test_samples_are_those_of_every_kept_checkpoint(model, tmp_path):
    for step in (2, 10):
        place = tmp_path / "run" / "checkpoints" / f"step-{step:08}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(model)
    kept = checkpoints_of(str(tmp_path / "run"))
    found = opened.samples(str(tmp_path / "run"), kept, OpenedText("a b"))
    loaded, tokenizer = af.load(model)
    text = af.generate(loaded, tokenizer, "a b", max_tokens=opened.WRITTEN, sampling=GREEDY)
    assert [(each["step"], each["text"]) for each in found["samples"]] == [(2, text), (10, text)]


def test_a_workshop_says_what_is_pending_and_what_is_lacking(monkeypatch):
    made = Workshop("needs", wait=0.0)
    try:
        assert made.ask("a", dict) == {"pending": True}
    finally:
        made.close()
    monkeypatch.setattr(workshop, "traceable", lambda: False)
    assert made.ask("a", dict) == {"pending": False, "why": "needs"}


def test_a_worker_ends_with_its_workshop_whatever_it_is_at():
    made, before = Workshop("needs", wait=120), {each.pid for each in active_children()}
    assert made.ask("a", dict) == {"pending": False}
    (worker,) = (each for each in active_children() if each.pid not in before)
    made.wait = 0.0
    assert made.ask("b", time.sleep, 600) == {"pending": True}
    made.close()
    worker.join(60)
    assert not worker.is_alive()
