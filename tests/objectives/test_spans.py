"""Answers in a text: windows as transformers cuts them, its loss on the same logits, SQuAD's two figures, refusals."""

from __future__ import annotations

import itertools

import pytest
import torch
from tokenizers import Tokenizer, processors
from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast

from anyformer.describe import change_all
from anyformer.model.transformer import build
from anyformer.objectives import Examples, SpansObjective, loss_of
from anyformer.objectives.spans import overlap_f1, windows_of
from anyformer.parts import Head
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.text import DataError
from objectives.heads import bert, made, measured

LONG = "the sun is a star and the moon is none but it is near and round and bright at night"


def row(context: str, answer: str, question: str = "what?") -> dict[str, object]:
    return {"context": context, "question": question, "answer": answer, "start": context.find(answer)}


ROWS = [row(LONG, answer) for answer in ("sun", "near and round", "night", "star and the moon")] + [row("it is é, red", "red")]
DATA = {"kind": "answers"}
T = 40


def by_row(examples: Examples) -> dict[str, torch.Tensor]:
    return {"tokens": examples.tokens, "types": examples.types, "padding": examples.padding, "targets": examples.targets}


@pytest.mark.parametrize(("tokenizer", "length"), [({"kind": "bytes"}, T), ({"kind": "word_piece", "vocab": 64}, 24)])
def test_windows_and_targets_are_those_of_transformers(tmp_path, tokenizer, length):
    """`prepare_train_features` of transformers' example, window by window."""
    objective = SpansObjective(windows=4, overlap=10)
    prepared = made(objective, {**DATA, "tokenizer": tokenizer}, ROWS, tmp_path, length)
    ours = prepared.corpus.tokenizer
    cls, sep = ours.special("cls"), ours.special("sep")
    theirs = Tokenizer.from_str(ours.definition)
    theirs.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=theirs, pad_token="<|endoftext|>")
    encoded = wrapped(
        [each["question"] for each in ROWS], [each["context"] for each in ROWS],
        truncation="only_second", max_length=length, stride=10, padding="max_length",
        return_overflowing_tokens=True, return_offsets_mapping=True, return_token_type_ids=True,
    )  # fmt: skip
    found = [
        {name: value[place] for name, value in by_row(each).items()}
        for each in prepared.held_out
        for place in range(len(each.tokens))
        if int(each.targets[place, 0]) >= 0
    ]
    assert len(found) == len(encoded["input_ids"]) > len(ROWS)
    answered = 0
    for number, ours_row in enumerate(found):
        mask = torch.tensor(encoded["attention_mask"][number]).bool()
        assert torch.equal(~ours_row["padding"], mask)
        assert torch.equal(ours_row["tokens"][mask], torch.tensor(encoded["input_ids"][number])[mask])
        assert torch.equal(ours_row["types"][mask], torch.tensor(encoded["token_type_ids"][number])[mask])
        asked = ROWS[encoded["overflow_to_sample_mapping"][number]]
        begin, end = asked["start"], asked["start"] + len(asked["answer"])
        places = [place for place, owner in enumerate(encoded.sequence_ids(number)) if owner == 1]
        offsets = encoded["offset_mapping"][number]
        first, last = 0, 0
        if offsets[places[0]][0] <= begin and offsets[places[-1]][1] >= end:
            first = max(place for place in places if offsets[place][0] <= begin)
            last = min(place for place in places if offsets[place][1] >= end)
            answered += 1
        assert ours_row["targets"].tolist() == [first, last]
    assert answered >= len(ROWS)


def test_loss_is_that_of_transformers(tmp_path):
    """On the same logits, of rows without padding: it lets padding take a share of the probability."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=300,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    theirs = BertForQuestionAnswering(config).eval()
    tokens = torch.randint(0, 300, (6, 20))
    targets = torch.tensor([[3, 5], [0, 0], [4, 4], [7, 19], [1, 2], [0, 0]])
    with torch.no_grad():
        theirs.qa_outputs.weight.mul_(50)
        out = theirs(tokens, start_positions=targets[:, 0], end_positions=targets[:, 1])
    examples = Examples(
        tokens, targets, None, torch.arange(6), counts=torch.ones(6, dtype=torch.float64), facts=torch.tensor([[1, 19]] * 6)
    )
    figures = measured(SpansObjective(), [torch.stack([out.start_logits, out.end_logits], -1)], [examples])
    assert figures["loss"] == pytest.approx(float(out.loss), rel=1e-5)


def test_a_padded_row_has_the_loss_it_has_alone(tmp_path):
    objective = SpansObjective(windows=2, overlap=4)
    prepared = made(objective, DATA, [ROWS[4], row("it is blue", "blue")], tmp_path, 64)
    model = build(bert(Head(outputs=2)), seed=3).eval()
    both = loss_of(objective, model, prepared.held_out[0], None)
    alone = [
        loss_of(objective, model, made(objective, DATA, [each], tmp_path, length).held_out[0], None)
        for each, length in ((ROWS[4], 21), (row("it is blue", "blue"), 18))
    ]
    torch.testing.assert_close(both, sum(alone), atol=1e-5, rtol=1e-5)
    assert prepared.held_out[0].count == 2  # two questions of one window each


def logits_of(examples: Examples, places: list[tuple[int, int]]) -> torch.Tensor:
    """Logits that are highest at a first and a last position of each row."""
    logits = torch.zeros(*examples.tokens.shape, 2)
    for number, (first, last) in enumerate(places):
        logits[number, first, 0] = logits[number, last, 1] = 9.0 + number
    return logits


def test_answers_are_the_likeliest_of_all_windows(tmp_path):
    """Of three questions one is right in its second window, one half right, one wrong."""
    objective = SpansObjective(windows=4, overlap=12)
    rows = [row(LONG, "near and round"), row("a red sea", "red sea"), ROWS[4]]
    examples = made(objective, DATA, rows, tmp_path, T).held_out[0]
    right = next(number for number in range(4) if examples.targets[number, 0] > 0)
    assert right > 0
    first, last = examples.targets[4].tolist()
    assert last - first == 6
    begin = int(examples.facts[8, 0])
    places = [(10, 11)] * 4 + [(first, first + 2)] * 4 + [(begin, begin)] * 4  # "red" of "red sea", "i" of "it is é, red"
    places[right] = tuple(examples.targets[right].tolist())
    logits = logits_of(examples, places)
    logits[right] *= 5
    figures = measured(objective, [logits], [examples])
    assert figures["exact_match"] == pytest.approx(1 / 3)
    assert figures["f1"] == pytest.approx((1 + 2 * 3 / (3 + 7) + 0) / 3)


def test_an_answer_lies_in_the_context_in_order_and_is_not_too_long(tmp_path):
    objective = SpansObjective(longest=4)
    examples = made(objective, DATA, [row("a red sea", "red")], tmp_path, T, batch=1).held_out[0]
    begin = int(examples.facts[0, 0])
    logits = torch.zeros(1, T, 2)
    logits[0, 0], logits[0, 2] = 50.0, 40.0  # [CLS] and the question
    logits[0, begin + 8, 0] = logits[0, begin, 1] = 30.0  # the end before the start
    logits[0, begin, 0] = logits[0, begin + 8, 1] = 5.0  # nine tokens
    logits[0, begin + 2, 0] = logits[0, begin + 4, 1] = 20.0
    assert measured(objective, [logits], [examples])["exact_match"] == 1.0


def test_an_answer_may_be_a_single_token(tmp_path):
    examples = made(SpansObjective(), DATA, [row("plan b it is", "b")], tmp_path, T, batch=1).held_out[0]
    (first, last) = examples.targets[0].tolist()
    assert first == last > 0
    assert measured(SpansObjective(), [logits_of(examples, [(first, last)])], [examples])["exact_match"] == 1.0


def test_no_answer_is_said_where_it_may_be(tmp_path):
    rows = [row("a red sea", "red"), {"context": "a blue sky", "question": "what?", "answer": ""}]
    for objective, exact in ((SpansObjective(unanswerable=True), 1.0), (SpansObjective(), 0.5)):
        examples = made(objective, DATA, rows, tmp_path, T).held_out[0]
        assert examples.targets[1].tolist() == [0, 0]
        logits = logits_of(examples, [tuple(each) for each in examples.targets.tolist()])
        assert measured(objective, [logits], [examples])["exact_match"] == exact


def test_f1_of_bags_of_tokens():
    assert overlap_f1([1, 2, 2], [2, 2, 3]) == pytest.approx(2 / 3)
    assert overlap_f1([1], [2]) == overlap_f1([], [1]) == overlap_f1([1], []) == 0
    assert overlap_f1([], []) == 1


@pytest.mark.parametrize(("length", "size", "overlap"), [(5, 10, 3), (10, 10, 3), (11, 10, 3), (50, 9, 4), (12, 4, 4)])
def test_windows_cover_a_text(length, size, overlap):
    windows = windows_of(length, size, overlap)
    assert set().union(*(range(*each) for each in windows)) == set(range(length))
    assert all(each.stop - each.start <= size for each in windows)
    if overlap < size:
        assert all(after.start == before.stop - overlap for before, after in itertools.pairwise(windows))


def test_a_question_that_needs_more_windows_is_left_out(tmp_path):
    rows = [row(LONG, "sun"), row("a red sea", "red")]
    context = len(LONG) - (T - 3 - len("what?"))  # beyond the first window
    each = T - 3 - len("what?") - 10
    needed = 1 + -(-context // each)
    kept = [
        sum(len(part.rows) for part in made(SpansObjective(windows=count, overlap=10), DATA, rows, tmp_path, T).held_out)
        for count in (1, needed - 1, needed)
    ]
    assert kept == [1, 1, 2]


def test_baseline_is_that_of_equal_scores(tmp_path):
    """Equal scores of the context's positions and `[CLS]`, and none elsewhere."""
    objective = SpansObjective(windows=2, overlap=10)
    prepared = made(objective, DATA, [ROWS[4], row("a red sea", "red")], tmp_path, T)
    feeds = [
        objective.feed(prepared.data, prepared.corpus, prepared.setting, 4, held_out=held_out) for held_out in (False, True)
    ]
    _, loss = objective.baseline(feeds[0], 1, feeds[1], 10, 2)
    outputs = []
    for examples in prepared.held_out:
        places = torch.arange(T)
        inside = (places >= examples.facts[:, :1]) & (places < examples.facts[:, 1:]) | (places == 0)
        outputs.append(torch.where(inside, 0.0, -1e4)[:, :, None].expand(-1, -1, 2))
    assert measured(objective, outputs, prepared.held_out)["loss"] == pytest.approx(loss, rel=1e-5)


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match=r"set head = \{outputs = 2\}"):
        SpansObjective().check(bert(Head(outputs=2, pool="first")))
    with pytest.raises(ValueError, match="do not get on"):
        SpansObjective(windows=2).sizes.check(32, 4, 1)
    with pytest.raises(DataError, match=r"the answer 'sun' \(str\) is not at character 3 of the context; it begins at 4"):
        made(SpansObjective(), DATA, [{**row(LONG, "sun"), "start": 3}], tmp_path, T)


def test_dropout_differs_between_the_windows_of_a_question(tmp_path):
    rows = torch.tensor([5, 9])
    assert Noise.at(0, 0, rows).of_each(3).rows.tolist() == [15, 16, 17, 27, 28, 29]
    assert Noise.at(0, 0, rows).of_each(1).rows is rows
    model = change_all(bert(Head(outputs=2)), {"encoder.dropout": 0.5})
    objective = SpansObjective(windows=2, overlap=4)
    examples = made(objective, DATA, [row("a red sea", "red")], tmp_path, T, batch=1).training
    assert torch.equal(examples.tokens[0], examples.tokens[1])  # the second is not needed, and repeats the first
    logits = objective._logits(build(model).train(), examples, Noise.at(0, 0, examples.rows), Auxiliary())
    assert not torch.equal(logits[0], logits[1])
