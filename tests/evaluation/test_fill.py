"""Hidden words, and counterparts found by embeddings."""

from __future__ import annotations

import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from anyformer.data.tokenizer_specs import BytePairs, Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import UserError
from anyformer.evaluation import Retrieval, embeddings, fill, open_subject, retrieve
from anyformer.evaluation.fill import masked_row
from anyformer.text import Tokenizer
from anyformer.text.lookup import byte_letters
from anyformer.text.specials import Specials

TEXT = ["the cat sat on the mat and the dog sat on the log " * 40]


def test_hidden_tokens_have_the_models_probabilities(masked):
    subject = open_subject(masked)
    tokenizer = subject.tokenizer
    cls, sep, mask = map(tokenizer.special, ("cls", "sep", "mask"))
    row = [cls, *tokenizer.encode("def f"), mask, *tokenizer.encode("(x):"), mask, sep]
    with torch.no_grad():
        chances = subject.model(torch.tensor([row]))[0].double().softmax(-1)
    one, two = fill(subject, "def f[MASK](x):[MASK]", top=3)
    for found, place in ((one, 6), (two, len(row) - 2)):
        best = chances[place].argsort(descending=True)[:3].tolist()
        assert [token for token, _, _ in found.tokens] == best
        assert [chance for *_, chance in found.tokens] == pytest.approx(chances[place][best].tolist(), rel=1e-4)
        assert [word for _, word, _ in found.tokens] == [tokenizer.decode([token], special=True) for token in best]


def test_a_hidden_word_carries_its_space_where_words_do():
    special = Specials(roles=("cls", "sep", "mask"))
    pairs, bytes_ = (make_tokenizer(spec, lambda: TEXT, lambda: TEXT, special) for spec in (BytePairs(vocab=320), Bytes()))
    for tokenizer, before in ((pairs, "the"), (bytes_, "the ")):
        first, *row, last = masked_row(tokenizer, "the [MASK] sat")
        place = row.index(tokenizer.special("mask"))
        assert (first, last) == (tokenizer.special("cls"), tokenizer.special("sep"))
        assert (tokenizer.decode(row[:place]), tokenizer.decode(row[place + 1 :])) == (before, " sat")
    plain = make_tokenizer(Bytes(), lambda: TEXT, lambda: TEXT, Specials(roles=("mask",)))
    assert masked_row(plain, "a[MASK]") == [*plain.encode("a"), plain.special("mask")]


def test_texts_and_models_that_do_not_fit_are_refused(masked, first):
    subject = open_subject(masked)
    with pytest.raises(UserError, match=r"has no \[MASK\]"):
        fill(subject, "nothing to fill")
    with pytest.raises(UserError, match="the model reads 32"):
        fill(subject, "[MASK]" + "a" * 40)
    with pytest.raises(UserError, match="filled in by a masked model"):
        fill(open_subject(first), "a [MASK]")


def test_embeddings_are_those_of_each_text_alone(masked):
    subject = open_subject(masked)
    texts = ["def f(x)", "a", "return x + 1", ""]
    cls, sep = map(subject.tokenizer.special, ("cls", "sep"))
    for pool in ("first", "mean", "last"):
        found = embeddings(subject, texts, pool)
        for text, each in zip(texts, found, strict=True):
            with torch.no_grad():
                x = subject.model.features(torch.tensor([[cls, *subject.tokenizer.encode(text), sep]]))[0]
            expected = {"first": x[0], "mean": x.mean(0), "last": x[-1]}[pool]
            torch.testing.assert_close(each, expected / expected.norm(), rtol=1e-4, atol=1e-5)


def test_ranks_are_among_all_different_counterparts(masked):
    subject = open_subject(masked)
    pairs = [(f"f{number}(x)", f"def f{number % 5}(y)") for number in range(9)]
    found = retrieve(subject, pairs)
    candidates = list(dict.fromkeys(positive for _, positive in pairs))
    texts, others = embeddings(subject, [text for text, _ in pairs]), embeddings(subject, candidates)
    for (_, positive), x, rank in zip(pairs, texts, found.ranks, strict=True):
        near = [float(x @ y) for y in others]
        assert rank == sum(each >= near[candidates.index(positive)] - 1e-6 for each in near)
    assert found.candidates == 5
    same = retrieve(subject, [(text, text) for text in ("one text", "another", "x" * 20)])
    assert same.ranks == (1, 1, 1)


def test_recall_and_reciprocal_ranks():
    found = Retrieval((1, 2, 5, 10), 20)
    assert [found.recall(most).value for most in (1, 5)] == [0.25, 0.75]
    assert found.mean_reciprocal_rank == pytest.approx((1 + 0.5 + 0.2 + 0.1) / 4)


@pytest.mark.parametrize("text", ["say  <mask> two", "say <mask>", "<mask> two", "say two  <mask>  time <mask>"])
@pytest.mark.parametrize("strips", [{}, {"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}])
def test_a_mask_takes_the_white_space_that_its_authors_say(tmp_path, text, strips):
    """A tokenizer in which words carry the space before them, beside the configuration of a model, as transformers reads it."""
    inner = tokenizers.Tokenizer(models.BPE(byte_letters(), []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.add_special_tokens(["<s>", "</s>"])
    inner.add_special_tokens([tokenizers.AddedToken("<mask>", special=True, **strips)])
    inner.post_processor = processors.RobertaProcessing(("</s>", 257), ("<s>", 256))
    (tmp_path / "tokenizer.json").write_text(inner.to_str())
    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": "<mask>", "eos_token": "</s>"}')
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    wanted = PreTrainedTokenizerFast.from_pretrained(tmp_path)(text)["input_ids"]
    assert masked_row(Tokenizer.load(tmp_path), text) == wanted
    assert masked_row(Tokenizer.load(tmp_path), text.replace("<mask>", "[MASK]")) == wanted
