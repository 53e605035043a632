"""Objectives on whole texts stand in the frame of the tokenizer: tokens, segments and losses are those of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers, processors
from transformers import AutoTokenizer

import anyformer as af
from anyformer.data import (
    IGNORED,
    AnswerSpans,
    Bytes,
    Corpus,
    Data,
    Files,
    Labelled,
    Similar,
    Text,
    TokenizerFile,
    WordLabels,
    prepare,
)
from anyformer.objectives import (
    ClassificationObjective,
    ContrastiveObjective,
    MaskedObjective,
    Objective,
    Setting,
    SpansObjective,
    TokenLabelsObjective,
    loss_of,
)
from anyformer.plan import Plan
from anyformer.text import Tokenizer
from anyformer.text.row_frame import row_frame

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "the", "of", "time", "say", "two", "three", "model", "is", "a"]
S, E = ("<s>", 0), ("</s>", 2)
FRAMES = {
    "bert": processors.BertProcessing(E, S),
    "roberta": processors.RobertaProcessing(E, S),
    "bos": processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[S]),
    "end": processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[E]),
    "none": None,
}
ENCODER = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
           "max_position_embeddings": 40, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # fmt: skip
LLAMA = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24, "pad_token_id": 1}
GPT2 = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 40, "pad_token_id": 1}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("Bert", "bert", ENCODER | {"type_vocab_size": 2}),
    "roberta": ("Roberta", "roberta", ENCODER | {"type_vocab_size": 1, "pad_token_id": 1}),
    "llama": ("Llama", "bos", LLAMA),
    "llama-end": ("Llama", "end", LLAMA),
    "gpt2": ("GPT2", "none", GPT2),
}
"""Of each: the model's name in transformers, its tokenizer's frame, its sizes."""
LENGTH = 24


def written(place: Path, frame: str) -> None:
    inner = tokenizers.Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(WORDS[:5])
    if FRAMES[frame] is not None:
        inner.post_processor = FRAMES[frame]
    (place / "tokenizer.json").write_text(inner.to_str())
    names = {"eos": "</s>", "bos": "<s>", "pad": "<pad>", "mask": "<mask>", "unk": "<unk>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | {f"{role}_token": word for role, word in names.items()}
    (place / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`directory(model, task, labels=3)`: a tiny model with the head of a task."""

    def make(name: str, task: str, **more: Any) -> Path:
        place = tmp_path_factory.mktemp(name)
        torch.manual_seed(2)
        kind, frame, sizes = MODELS[name]
        config = getattr(transformers, f"{kind}Config")(vocab_size=len(WORDS), initializer_range=0.5, **sizes, **more)
        getattr(transformers, f"{kind}For{task}")(config).save_pretrained(place)
        written(place, frame)
        return place

    return make


def prepared(
    place: Path, data: type[Files], rows: list[dict[str, Any]], objective: Objective, **more: Any
) -> tuple[Corpus, Data]:
    path = place / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    value = data(paths=(str(path),), validation=0.0, tokenizer=TokenizerFile(path=str(place)), **more)
    corpus = prepare(value, place / "cache", 1, progress=False, special=objective.special(LENGTH))
    return replace(corpus, validation=corpus.train), value


def examples(place: Path, data: type[Files], rows: list[dict[str, Any]], objective: Objective, **more: Any) -> Any:
    corpus, value = prepared(place, data, rows, objective, **more)
    (found,) = objective.feed(value, corpus, Setting(corpus.tokenizer, LENGTH, 0, corpus.names), 8, held_out=True).once()
    return found


def held(found: Any, theirs: Any) -> None:
    """The rows are those of transformers, padded further."""
    width = theirs["input_ids"].shape[1]
    real = theirs["attention_mask"] > 0
    assert torch.equal(~found.padding[:, :width], real)
    assert torch.equal(found.tokens[:, :width][real], theirs["input_ids"][real])
    assert torch.equal(found.types[:, :width][real], theirs["token_type_ids"][real])
    assert bool(found.padding[:, width:].all())


TEXTS = [("say two", "the model is three"), ("time", "a model of the time"), ("the time of two", "say")]


@pytest.mark.parametrize("pair", [False, True], ids=["texts", "pairs"])
@pytest.mark.parametrize("name", MODELS)
def test_classification_is_that_of_transformers(directory: Callable[..., Path], name: str, pair: bool) -> None:
    place = directory(name, "SequenceClassification", num_labels=3)
    rows = [{"text": a, "other": b, "label": f"c{number}"} for number, (a, b) in enumerate(TEXTS)]
    objective = ClassificationObjective()
    found = examples(place, Labelled, rows, objective, text_pair="other" if pair else None)
    words = AutoTokenizer.from_pretrained(place)
    given = words(
        [a for a, _ in TEXTS], [b for _, b in TEXTS] if pair else None, padding=True, return_tensors="pt",
        return_token_type_ids=True,
    )  # fmt: skip
    held(found, given)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(place).eval()
    inputs = dict(given) if name == "bert" else {key: given[key] for key in ("input_ids", "attention_mask")}
    model, _ = af.load(place, plan=Plan(precision="fp32", compile="off"))
    with torch.no_grad():
        mine = objective.logits(model.eval(), found, None, None)  # type: ignore[arg-type]
        torch.testing.assert_close(mine, theirs(**inputs).logits, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2"])
def test_words_have_classes_where_transformers_has_them(directory: Callable[..., Path], name: str) -> None:
    place = directory(name, "TokenClassification", num_labels=3)
    rows = [{"words": a.split(), "labels": [f"c{len(word) % 3}" for word in a.split()]} for a, _ in TEXTS]
    objective = TokenLabelsObjective()
    found = examples(place, WordLabels, rows, objective)
    words = AutoTokenizer.from_pretrained(place)
    given = words(
        [a for a, _ in TEXTS], padding=True, return_tensors="pt", return_token_type_ids=True
    )  # fmt: skip
    held(found, given)
    labels = torch.full_like(given["input_ids"], IGNORED)
    for row, (text, _) in enumerate(TEXTS):
        for place_of, word in zip(given.word_ids(row), range(labels.shape[1]), strict=True):
            if place_of is not None:
                labels[row, word] = len(text.split()[place_of]) % 3
    assert torch.equal(found.targets[:, : labels.shape[1]], labels)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(place).eval()
    model, _ = af.load(place, plan=Plan(precision="fp32", compile="off"))
    with torch.no_grad():
        loss = theirs(given["input_ids"], attention_mask=given["attention_mask"], labels=labels).loss
        mine = loss_of(objective, model.eval(), found, None) / found.count
    torch.testing.assert_close(mine, loss, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2"])
def test_questions_and_windows_of_contexts_are_those_of_transformers(directory: Callable[..., Path], name: str) -> None:
    place = directory(name, "QuestionAnswering")
    context = "the model is a model of the time of two of three is the time"
    rows = [{"context": context, "question": "say", "answer": "two of", "start": context.index("two of")}]
    objective = SpansObjective(windows=4, overlap=3)
    path = place / "rows.jsonl"
    path.write_text(json.dumps(rows[0]) + "\n")
    data = AnswerSpans(paths=(str(path),), validation=0.0, tokenizer=TokenizerFile(path=str(place)))
    corpus = prepare(data, place / "cache", 1, progress=False, special=objective.special(12))
    held_out = objective.feed(data, replace(corpus, validation=corpus.train), Setting(corpus.tokenizer, 12), 8, held_out=True)
    (found,) = held_out.once()
    words = AutoTokenizer.from_pretrained(place)
    given = words(
        "say", context, truncation="only_second", max_length=12, stride=3, return_overflowing_tokens=True, padding=True,
        return_tensors="pt", return_token_type_ids=True,
    )  # fmt: skip
    count = len(given["input_ids"])
    asked = found.targets[:, 0] != IGNORED
    assert int(asked.sum()) == count
    real = given["attention_mask"] > 0
    width = real.shape[1]
    assert torch.equal(found.tokens[asked][:, :width][real], given["input_ids"][real])
    assert torch.equal(found.types[asked][:, :width][real], given["token_type_ids"][real])
    first, last = WORDS.index("two"), WORDS.index("of")
    for row, (start, stop) in zip(given["input_ids"].tolist(), found.targets[asked].tolist(), strict=True):
        there = any(row[at : at + 2] == [first, last] for at in range(len(row)))
        assert (row[start], row[stop]) == ((first, last) if there else (row[0], row[0]))


@pytest.mark.parametrize("name", MODELS)
def test_texts_are_compared_in_their_frame(directory: Callable[..., Path], tmp_path: Path, name: str) -> None:
    written(tmp_path, MODELS[name][1])
    rows = [{"text": a, "positive": b} for a, b in TEXTS]
    found = examples(tmp_path, Similar, rows, ContrastiveObjective())
    given = AutoTokenizer.from_pretrained(tmp_path)([text for pair in TEXTS for text in pair])["input_ids"]
    assert [row[~hidden].tolist() for row, hidden in zip(found.tokens, found.padding, strict=True)] == given


@pytest.mark.parametrize("frame", FRAMES)
def test_hidden_tokens_stand_in_rows_framed_by_the_tokenizer(tmp_path: Path, frame: str) -> None:
    """Every row has as many tokens as the length, and no special token is hidden."""
    written(tmp_path, frame)
    objective = MaskedObjective(rate=0.5, masked=1.0, random=0.0)
    (tmp_path / "text.txt").write_text("the model is a model of the time " * 20)
    data = Text(paths=(str(tmp_path / "text.txt"),), validation=0.0, tokenizer=TokenizerFile(path=str(tmp_path)))
    corpus = prepare(data, tmp_path / "cache", 1, progress=False, special=objective.special(LENGTH))
    setting = Setting(corpus.tokenizer, LENGTH)
    found = objective.feed(data, corpus, setting, 4).at(0)
    whole = torch.where(found.targets == IGNORED, found.tokens, found.targets)
    words = AutoTokenizer.from_pretrained(tmp_path)
    around = row_frame(corpus.tokenizer).single
    assert whole.shape == (4, LENGTH)
    for row, targets in zip(whole.tolist(), found.targets, strict=True):
        inner = row[len(around.before) : LENGTH - len(around.behind)]
        assert row == words(" ".join(WORDS[token] for token in inner))["input_ids"]
        assert targets[targets != IGNORED].min() > 4
        assert (found.tokens == 4).any()


def test_a_tokenizer_made_here_frames_as_it_did(tmp_path: Path) -> None:
    """Its file says so from now on; one of earlier, or for several objectives, is known by its names."""
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": "b"}\n')
    corpus = prepare(
        Labelled(paths=(str(tmp_path / "rows.jsonl"),), validation=0.0, tokenizer=Bytes()), tmp_path / "cache", 1,
        progress=False, special=ClassificationObjective().special(8),
    )  # fmt: skip
    made = corpus.tokenizer
    first, last = (made.special_tokens[name] for name in ("[CLS]", "[SEP]"))
    table = json.loads(made.definition)
    assert table.pop("post_processor")["type"] == "TemplateProcessing"
    earlier = Tokenizer.parse(json.dumps(table | {"post_processor": None}), made.config)
    for tokenizer in (made, earlier):
        assert row_frame(tokenizer).pair.framed([[97], [98]]) == ([first, 97, last, 98, last], [0, 0, 0, 1, 1])
    assert earlier.frame.single.count == 0
