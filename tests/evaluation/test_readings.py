"""The likelihood of documents read one by one: that of transformers, and of lm-evaluation-harness's own formula."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel

from anyformer.describe import UserError
from anyformer.evaluation import measure, open_subject, task_of
from anyformer.evaluation.readings import TargetWindow, rolling, strided
from evaluation.authors import FRAMES, LENGTH, authors_model

TEXTS = ["the model is a model", "say two", "time", "of the time " * 9 + "is three", "a model " * 30]


@pytest.fixture(scope="module", params=FRAMES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose tokenizer frames texts so."""
    folder = authors_model(tmp_path_factory.mktemp("model"), request.param)
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return folder


@torch.no_grad()
def nats(model: GPT2LMHeadModel, context: list[int], continuation: list[int]) -> float:
    logs = model(torch.tensor([context + continuation[:-1]])).logits[0].double().log_softmax(-1)
    return -float(logs[-len(continuation) :].gather(-1, torch.tensor(continuation)[:, None]).sum())


def windows_of_the_harness(tokens: list[int], most: int) -> list[tuple[list[int], list[int]]]:
    """`get_rolling_token_windows` with a context of one token, and `make_disjoint_window`, of tokens behind a first one."""
    first, rest = tokens[:1], tokens[1:]
    found = [(first, rest[:most])]
    done = most
    while done < len(rest):
        end = min(done + most, len(rest))
        found.append((tokens[end + 1 - most - 1 : done + 1], rest[done:end]))
        done = end
    return found


def test_each_document_has_the_likelihood_that_the_harness_gives_it(place: Path) -> None:
    """Where the tokenizer puts a token before a text that is the first, which is not predicted; else the one that begins a text
    stands there, as in the harness. A document that fits into a window has transformers' own loss."""
    theirs, words = AutoModelForCausalLM.from_pretrained(place).eval(), AutoTokenizer.from_pretrained(place)
    found = measure(task_of(open_subject(place), (str(place / "texts.jsonl"),), by_document=True, progress=False)).text
    assert found is not None
    for text, (count, mine) in zip(TEXTS, found.documents.tolist(), strict=True):
        tokens = words(text)["input_ids"]
        tokens = tokens if tokens[0] == 0 else [0, *tokens]
        wanted = sum(nats(theirs, *pair) for pair in windows_of_the_harness(tokens, LENGTH))
        assert count == len(tokens) - 1
        assert mine == pytest.approx(wanted, rel=1e-6)
        if len(tokens) <= LENGTH:
            given = torch.tensor([tokens])
            assert mine / count == pytest.approx(theirs(given, labels=given).loss.item(), abs=1e-5)
    assert found.whole.count == found.documents[:, 0].sum()


@pytest.mark.parametrize("stride", [1, 5, 15])
def test_strides_are_those_of_transformers_page_on_perplexity(place: Path, stride: int) -> None:
    theirs, words = AutoModelForCausalLM.from_pretrained(place).eval(), AutoTokenizer.from_pretrained(place)
    found = measure(task_of(open_subject(place), (str(place / "texts.jsonl"),), stride=stride, progress=False)).text
    assert found is not None
    for text, (count, mine) in zip(TEXTS, found.documents.tolist(), strict=True):
        tokens = words(text)["input_ids"]
        tokens = torch.tensor([tokens if tokens[0] == 0 else [0, *tokens]])
        before, total = 0, 0.0
        for begin in range(0, tokens.shape[1], stride):
            end = min(begin + LENGTH, tokens.shape[1])
            given = tokens[:, begin:end]
            wanted = given.clone()
            wanted[:, : -(end - before)] = -100
            predicted = int((wanted[:, 1:] != -100).sum())
            with torch.no_grad():
                total += float(theirs(given, labels=wanted).loss) * predicted if predicted else 0.0
            before = end
            if end == tokens.shape[1]:
                break
        assert count == tokens.shape[1] - 1
        assert mine == pytest.approx(total, rel=1e-5)


def test_documents_are_read_one_by_one_where_a_window_would_lack_what_stands_before_a_text(place: Path) -> None:
    subject, paths = open_subject(place), (str(place / "texts.jsonl"),)
    framed = subject.text.frame.single.count > 0
    assert task_of(subject, paths, progress=False).reading.by_document is framed
    tokens = task_of(subject, paths, progress=False).corpus.train.tokens[:].tolist()
    words = AutoTokenizer.from_pretrained(place)
    expected = [words(text)["input_ids"] for text in TEXTS]
    assert tokens == [token for text in expected for token in (*text, *([] if text[-1] == 1 else [1]))]
    with pytest.raises(UserError, match=r"stride = 16 should be at least 1, and less than the length of a window \(16\)"):
        task_of(subject, paths, stride=16, progress=False)


@pytest.mark.parametrize("tokens", [1, 2, 7, 8, 9, 40])
def test_every_token_but_the_first_is_a_target_once(tokens: int) -> None:
    for windows in (list(rolling(tokens, 8, 8)), *(list(strided(tokens, 8, stride)) for stride in (1, 3, 7))):
        targets = [place for window in windows for place in range(window.first, window.stop)]
        assert targets == list(range(1, tokens))
        assert all(window.start < window.first and window.stop - window.start <= 9 for window in windows)
    assert list(rolling(20, 8, 8)) == [TargetWindow(0, 1, 9), TargetWindow(8, 9, 17), TargetWindow(11, 17, 20)]


def test_a_document_of_one_token_says_nothing(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"text": "the"}\n{"text": "say two"}\n')
    found = measure(task_of(open_subject(place), (str(path),), by_document=True, progress=False)).text
    assert found is not None
    assert math.isfinite(found.whole.loss)
