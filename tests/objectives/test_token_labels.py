"""Classes of words: targets as transformers' example makes them, entities as exact spans, refusals."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score
from tokenizers import Tokenizer, processors
from transformers import DataCollatorForTokenClassification, PreTrainedTokenizerFast

from anyformer.data import IGNORED
from anyformer.describe import UserError
from anyformer.objectives import TokenLabelsObjective
from anyformer.objectives.classes import check_classes
from anyformer.objectives.entities import OUTSIDE, codes_of, entities
from anyformer.parts import Head
from anyformer.text import DataError
from objectives.heads import bert, drawn, made, measured

ROWS = [
    {"words": ["Ada", "Lovelace", "met", "Babbage", "in", "London"], "tags": ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC"]},
    {"words": ["Nobody", "came"], "tags": ["O", "O"]},
    {"words": ["New", "York", "and", "Ada"], "tags": ["B-LOC", "I-LOC", "O", "B-PER"]},
] * 3
DATA = {"kind": "word_labels", "tags": "tags", "tokenizer": {"kind": "word_piece", "vocab": 64}}


def test_targets_are_those_of_transformers(tmp_path):
    """`tokenize_and_align_labels` of transformers' example, and its collator."""
    prepared = made(TokenLabelsObjective(), DATA, ROWS, tmp_path, 48)
    ours, names = prepared.corpus.tokenizer, prepared.corpus.names["labels"]
    theirs = Tokenizer.from_str(ours.definition)
    roles = [(word, ours.special(role)) for word, role in (("[CLS]", "cls"), ("[SEP]", "sep"))]
    theirs.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=roles)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=theirs, pad_token="<|endoftext|>")
    encoded = wrapped([row["words"] for row in ROWS], is_split_into_words=True)
    features = []
    for number, row in enumerate(ROWS):
        labels, before = [], None
        for word in encoded.word_ids(number):
            labels.append(-100 if word is None or word == before else names.index(row["tags"][word]))
            before = word
        features.append({"input_ids": encoded["input_ids"][number], "labels": labels})
    collated = DataCollatorForTokenClassification(wrapped, padding="max_length", max_length=48)(features)
    targets, tokens = (torch.cat([getattr(each, name) for each in prepared.held_out]) for name in ("targets", "tokens"))
    assert torch.equal(targets, collated["labels"])
    mask = collated["attention_mask"].bool()
    assert torch.equal(tokens[mask], collated["input_ids"][mask])
    assert (targets != IGNORED).sum() == sum(len(row["words"]) for row in ROWS)
    assert int(mask.sum()) > (targets != IGNORED).sum() + 2 * len(ROWS), "no word has a second piece"


def test_metrics_of_words(tmp_path):
    objective = TokenLabelsObjective()
    batches = made(objective, DATA, ROWS, tmp_path, 48).held_out
    outputs = [drawn(len(each.rows), 48, 5, seed=number) for number, each in enumerate(batches)]
    logits, real = torch.cat(outputs).flatten(0, 1), torch.cat([each.targets for each in batches]).flatten()
    kept, said = real != IGNORED, logits.argmax(-1)
    figures = measured(objective, outputs, batches)
    assert figures["accuracy"] == pytest.approx(float((said == real)[kept].double().mean()))
    assert figures["macro_f1"] == pytest.approx(f1_score(real[kept], said[kept], average="macro"))
    assert figures["loss"] == pytest.approx(float(F.cross_entropy(logits[kept], real[kept])), rel=1e-5)


def said_as(batches, names, change):
    """Logits that say each true class, changed by `change(word's number in the row, class)`."""
    outputs = []
    for each in batches:
        said = each.targets.clone()
        for row in said:
            for number, place in enumerate((row != IGNORED).nonzero()[:, 0].tolist()):
                row[place] = names.index(change(number, names[row[place]]))
        outputs.append(F.one_hot(said.clamp(min=0), len(names)).float())
    return outputs


@pytest.mark.parametrize(
    ("change", "right", "said"),
    [
        (lambda number, tag: tag, 15, 15),
        # Every span keeps its first word and loses the others: those of two words are wrong.
        (lambda number, tag: "O" if tag[0] == "I" else tag, 9, 15),
        # Another type, equal places.
        (lambda number, tag: {"B-LOC": "B-PER", "I-LOC": "I-PER"}.get(tag, tag), 9, 15),
        (lambda number, tag: "O", 0, 0),
        # I without B begins an entity all the same, so that it is whole.
        (lambda number, tag: "I" + tag[1:] if tag[0] == "B" else tag, 15, 15),
    ],
)
def test_entities_count_where_ends_and_type_are_equal(tmp_path, change, right, said):
    objective = TokenLabelsObjective()
    prepared = made(objective, DATA, ROWS, tmp_path, 48)
    names = list(prepared.corpus.names["labels"])
    figures = measured(objective, said_as(prepared.held_out, names, change), prepared.held_out)
    assert figures["entity_f1"] == pytest.approx(2 * right / (15 + said))


def plainly(tags: list[str]) -> set[tuple[int, int, str]]:
    """Spans by the words of conlleval's rule, from the end of each backwards."""
    found = set()
    for end, tag in enumerate(tags):
        if tag == "O":
            continue
        following = tags[end + 1] if end + 1 < len(tags) else "O"
        if following == f"I-{tag[2:]}":
            continue
        start = end
        while tags[start][0] != "B" and start and tags[start - 1] != "O" and tags[start - 1][2:] == tag[2:]:
            start -= 1
        found.add((start, end, tag[2:]))
    return found


def test_spans_equal_a_search_from_their_ends():
    chance, names = random.Random(0), ["B-X", "B-Y", "I-X", "I-Y", "O"]
    codes = codes_of(names)
    for _ in range(500):
        tags = chance.choices(names, k=chance.randrange(1, 9))
        found = entities([codes[names.index(tag)] for tag in tags])
        assert {(start, end, "XY"[type]) for start, end, type in found} == plainly(tags), tags


def test_classes_of_another_form_have_no_entities(tmp_path):
    assert codes_of(["call", "keyword"]) is None
    assert codes_of(["O"]) is None
    assert codes_of(["B-A", "O"]) == [0, OUTSIDE]
    objective = TokenLabelsObjective()
    prepared = made(objective, {"kind": "word_labels"}, [{"words": ["a"], "labels": ["noun"]}] * 4, tmp_path, 8)
    assert set(measured(objective, [drawn(4, 8, 2)], prepared.held_out)) == {"loss", "accuracy", "macro_f1"}


def test_refusals(tmp_path):
    objective = TokenLabelsObjective()
    with pytest.raises(ValueError, match=r"head.pool gives one output per text"):
        objective.check(bert(Head(outputs=5, pool="first")))
    corpus = made(objective, DATA, ROWS, tmp_path, 48).corpus
    with pytest.raises(UserError, match=r"5 classes .* the head 4 logits"):
        check_classes(bert(Head(outputs=4)), corpus, objective.traits.classes)
    with pytest.raises(DataError, match=r"rows.jsonl:1: 2 words in 'words', and 1 classes in 'labels'"):
        made(objective, {"kind": "word_labels"}, [{"words": ["a", "b"], "labels": ["x"]}], tmp_path, 8)


@pytest.mark.parametrize(("frame", "kept"), [(True, [2]), (False, [2, 2, 3])])
def test_a_text_that_fits_without_its_frame_is_taken_without_one(tmp_path, frame, kept):
    """Of texts of 3, 4, 5 and 6 bytes into rows of 5 positions."""
    rows = [{"words": text.split(), "tags": ["O"] * len(text.split())} for text in ("a a", "a aa", "a a a", "a a aa")]
    prepared = made(TokenLabelsObjective(frame=frame), {**DATA, "tokenizer": {"kind": "bytes"}}, rows, tmp_path, 5)
    assert [int((row != IGNORED).sum()) for each in prepared.held_out for row in each.targets] == kept
