"""Classes of texts and of pairs: rows as transformers makes them, metrics as scikit-learn computes them, refusals."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import confusion_matrix, f1_score
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerFast

from anyformer.catalogue.llama import llama
from anyformer.describe import UserError, change_all
from anyformer.model.transformer import build
from anyformer.objectives import ClassificationObjective, added
from anyformer.objectives.classes import check_classes
from anyformer.parts import Causal, Head, Prefix
from anyformer.parts.call.reports import Auxiliary
from objectives.heads import Says, bert, drawn, made, measured

ROWS = [{"text": f"one {'very ' * (n % 3)}{n}", "other": "two" * (1 + n % 2), "label": "abc"[n % 3]} for n in range(10)]
PAIRED = {"kind": "labelled", "text_pair": "other"}


def test_pairs_are_those_of_transformers(tmp_path):
    """Tokens, types and padding of a pair, by a tokenizer of theirs with the same vocabulary and BERT's template."""
    prepared = made(ClassificationObjective(), PAIRED, ROWS, tmp_path, 40)
    ours = prepared.corpus.tokenizer
    cls, sep = ours.special("cls"), ours.special("sep")
    theirs = Tokenizer.from_str(ours.definition)
    theirs.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=theirs, pad_token="<|endoftext|>")
    encoded = wrapped(
        [row["text"] for row in ROWS],
        [row["other"] for row in ROWS],
        padding="max_length",
        max_length=40,
        return_token_type_ids=True,
    )
    mask = torch.tensor(encoded["attention_mask"]).bool()
    found = prepared.held_out
    assert torch.equal(torch.cat([each.padding for each in found]), ~mask)
    assert torch.equal(torch.cat([each.tokens for each in found])[mask], torch.tensor(encoded["input_ids"])[mask])
    assert torch.equal(torch.cat([each.types for each in found])[mask], torch.tensor(encoded["token_type_ids"])[mask])
    names = prepared.corpus.names["label"]
    assert [names[each] for part in found for each in part.targets.tolist()] == [row["label"] for row in ROWS]


def test_types_reach_an_embedding_that_has_several(tmp_path):
    objective = ClassificationObjective()
    examples = made(objective, PAIRED, ROWS, tmp_path, 40).training
    two = Says(drawn(4, 3), model=bert(Head(outputs=3)))
    none = Says(drawn(4, 3), model=bert(Head(outputs=3)).but(embedding={"kind": "tokens", "vocab": 288}))
    for model in (two, none):
        objective.statistics(model, examples, Auxiliary(), {})
    assert torch.equal(two.calls[0]["types"], examples.types)
    assert none.calls[0]["types"] is None


def test_a_padded_row_has_the_logits_it_has_alone(tmp_path):
    """With a head that pools, and with one that does not."""
    objective = ClassificationObjective()
    examples = made(objective, PAIRED, ROWS, tmp_path, 40).training
    for pool in ("first", "mean", None):
        model = build(bert(Head(outputs=3, pool=pool)), seed=1).eval()
        with torch.no_grad():
            logits = objective.logits(model, examples, None, Auxiliary())
            for row in range(4):
                kept = int((~examples.padding[row]).sum())
                alone = model(examples.tokens[row : row + 1, :kept], types=examples.types[row : row + 1, :kept])
                alone = alone if pool else alone[:, -1]
                torch.testing.assert_close(logits[row : row + 1], alone, atol=1e-5, rtol=1e-5)


def test_metrics_are_those_of_scikit_learn(tmp_path):
    objective = ClassificationObjective()
    batches = made(objective, PAIRED, ROWS, tmp_path, 40).held_out
    outputs = [drawn(len(each.rows), 3, seed=number) for number, each in enumerate(batches)]
    logits, real = torch.cat(outputs), torch.cat([each.targets for each in batches])
    figures = measured(objective, outputs, batches)
    said = logits.argmax(-1)
    assert figures["accuracy"] == pytest.approx(float((said == real).double().mean()))
    assert figures["macro_f1"] == pytest.approx(f1_score(real, said, average="macro"))
    assert figures["loss"] == pytest.approx(float(F.cross_entropy(logits, real)), rel=1e-5)
    totals = added(objective.statistics(Says(one), each, Auxiliary(), {}) for one, each in zip(outputs, batches, strict=True))
    assert np.array_equal(totals["confusion"], confusion_matrix(real, said, labels=[0, 1, 2]))


def test_calibration_error_by_its_formula(tmp_path):
    """Loops over bins (l, u], as Guo et al. define it; a model that is right as often as it says has an error of 0."""
    objective = ClassificationObjective()
    batches = made(objective, PAIRED, ROWS * 8, tmp_path, 40, batch=16).held_out
    outputs = [3 * drawn(len(each.rows), 3, seed=number) for number, each in enumerate(batches)]
    chances, real = torch.cat(outputs).softmax(-1), torch.cat([each.targets for each in batches])
    error = 0.0
    for low in range(10):
        inside = [row for row in range(len(real)) if low / 10 < chances[row].max() <= (low + 1) / 10]
        if inside:
            right = np.mean([float(chances[row].argmax() == real[row]) for row in inside])
            error += len(inside) / len(real) * abs(right - np.mean([float(chances[row].max()) for row in inside]))
    assert error > 0.05
    assert measured(objective, outputs, batches)["calibration_error"] == pytest.approx(error, abs=1e-6)
    sure = [40.0 * F.one_hot(each.targets, 3) for each in batches]
    assert measured(objective, sure, batches)["calibration_error"] < 1e-6


def test_too_few_logits_are_refused_before_any_work(tmp_path):
    objective = ClassificationObjective()
    corpus = made(objective, PAIRED, ROWS, tmp_path, 40).corpus
    check_classes(bert(Head(outputs=3, pool="first")), corpus, objective.traits.classes)
    with pytest.raises(UserError, match=r"3 classes \(a, b, c\), and the head 2 logits: set architecture.head.outputs = 3"):
        check_classes(bert(Head(outputs=2, pool="first")), corpus, objective.traits.classes)


@pytest.mark.parametrize("head", [Head(tied=True), Head(outputs=1, pool="first"), Head(outputs="features", pool="mean")])
def test_heads_without_classes_are_refused(head):
    with pytest.raises(ValueError, match="needs a logit per class"):
        ClassificationObjective().check(bert(head))


def test_text_without_frame(tmp_path):
    prepared = made(ClassificationObjective(frame=False), PAIRED, ROWS[:4], tmp_path, 40)
    row = prepared.held_out[0]
    kept = ~row.padding[0]
    assert prepared.corpus.tokenizer.decode(row.tokens[0][kept].tolist(), special=True) == "one 0two"
    assert row.types[0][kept].tolist() == [0] * 5 + [1] * 3


def test_a_prefix_mask_reads_all_of_a_row_both_ways(tmp_path):
    objective = ClassificationObjective()
    decoder = llama(width=16, depth=2, heads=2, kv_heads=2, ffn=24, vocab=288).but(head=Head(outputs=3))
    both = change_all(decoder, {"decoder.layer.attention.mask": Causal() | Prefix()})
    examples = made(objective, {"kind": "labelled"}, ROWS, tmp_path, 40).training
    logits = {}
    with torch.no_grad():
        for name, kind in (("both", both), ("causal", decoder)):
            model = build(kind, seed=1).eval()
            logits[name] = objective.logits(model, examples, None, Auxiliary())
            kept = int((~examples.padding[0]).sum())
            prefix = torch.tensor([kept]) if name == "both" else None
            alone = model(examples.tokens[:1, :kept], prefix=prefix)[0, -1]
            assert torch.allclose(logits[name][0], alone, atol=1e-5)
    assert not torch.allclose(logits["both"], logits["causal"], atol=1e-4)


def test_more_classes_than_logits_are_refused_with_the_first_five():
    names = {"label": tuple("abcdef")}
    with pytest.raises(UserError, match=r"the data has 6 classes \(a, b, c, d, e, \.\.\.\), and the head 2 logits"):
        check_classes(SimpleNamespace(outputs=2), SimpleNamespace(names=names), "label")
    with pytest.raises(UserError, match=r"the data has 5 classes \(a, b, c, d, e\), and the head 2 logits"):
        check_classes(SimpleNamespace(outputs=2), SimpleNamespace(names={"label": tuple("abcde")}), "label")
