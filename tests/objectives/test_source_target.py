"""Sources and targets of models with two inputs, against transformers on the same records: tokens, shifts and losses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers, processors
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import anyformer as af
from anyformer.data import IGNORED, Batch, TextPairs, TokenizerFile, prepare
from anyformer.objectives import DenoisingObjective, Seq2SeqObjective, Setting, SpanCorruptionObjective, UL2Objective, loss_of
from anyformer.objectives.ul2 import Denoiser
from anyformer.plan import Plan
from anyformer.text import DataError, Tokenizer
from anyformer.text.sides import Sides

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *(f"<extra_id_{number}>" for number in range(6)),
         "the", "of", "time", "say", "two", "three", "model", "is", "a"]  # fmt: skip
NUMBER = {word: number for number, word in enumerate(WORDS)}
LETTERS = {word: number for number, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", "\u2581", *"abdefhilmnorstwy"])}
RECORDS = [("say two", "three"), ("the model is a model", "of the time is two"), ("time", "the time of the model")]
SIZES = {
    "vocab_size": 256, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "dropout": 0.0, "init_std": 0.5,
}  # fmt: skip
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0,
      "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "initializer_factor": 5.0}  # fmt: skip
FROM_EN = {"src_lang": "en_XX", "tgt_lang": "ro_RO"}
FROM_ENG = {"src_lang": "eng_Latn", "tgt_lang": "ron_Latn"}
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", "$A </s>", T5, {}),
    "bart": ("BartForConditionalGeneration", "<s> $A </s>", {**SIZES, "decoder_start_token_id": 2}, {}),
    "pegasus": ("PegasusForConditionalGeneration", "$A </s>", {**SIZES, "decoder_start_token_id": 1}, {}),
    "marian": ("MarianMTModel", "$A </s>", {**SIZES, "decoder_start_token_id": 1}, {}),
    "mbart": ("MBartForConditionalGeneration", "MBartTokenizer", SIZES, FROM_EN),
    "mbart-alike": ("MBartForConditionalGeneration", "MBartTokenizer", SIZES, {}),
    "mbart50": ("MBartForConditionalGeneration", "MBart50Tokenizer", SIZES, FROM_EN),
    "nllb": ("M2M100ForConditionalGeneration", "NllbTokenizer", {**SIZES, "decoder_start_token_id": 2}, FROM_ENG),
    "nllb-legacy": ("M2M100ForConditionalGeneration", "NllbTokenizer", {**SIZES, "decoder_start_token_id": 2},
                    {**FROM_ENG, "legacy_behaviour": True}),
}  # fmt: skip
"""Of each: the model, how its tokenizer frames a text or the tokenizer's class, the model's sizes, the tokenizer's settings."""


def written(place: Path, frame: str, more: dict[str, Any]) -> None:
    """The files of a tokenizer."""
    if "Tokenizer" in frame:
        vocabulary = LETTERS if frame == "NllbTokenizer" else [(word, -float(number)) for word, number in LETTERS.items()]
        getattr(transformers, frame)(vocab=vocabulary, **more).save_pretrained(place)
        return
    inner = tokenizers.Tokenizer(models.WordLevel(NUMBER, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(WORDS[:11])
    pieces = [(word, NUMBER[word]) for word in frame.split() if word != "$A"]
    inner.post_processor = processors.TemplateProcessing(single=frame, pair=f"{frame} $B", special_tokens=pieces)
    (place / "tokenizer.json").write_text(inner.to_str())
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    (place / "tokenizer_config.json").write_text(json.dumps(own))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`directory(name)`: a tiny model of a case with its tokenizer."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            kind, frame, sizes, more = CASES[name]
            made[name] = place = tmp_path_factory.mktemp(name)
            torch.manual_seed(3)
            model = getattr(transformers, kind)
            model(model.config_class(**sizes)).save_pretrained(place)
            written(place, frame, more)
        return made[name]

    return make


@pytest.mark.parametrize("name", CASES)
def test_tokens_shifts_and_losses_are_those_of_transformers(directory, tmp_path, name):
    place = directory(name)
    theirs, words = AutoModelForSeq2SeqLM.from_pretrained(place).eval(), AutoTokenizer.from_pretrained(place)
    model, tokenizer = af.load(place, plan=Plan(precision="fp32", compile="off"))
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in RECORDS))
    data = TextPairs(paths=(str(path),), validation=0.0, tokenizer=TokenizerFile(path=str(place)))
    corpus = prepare(data, tmp_path / "cache", 1, progress=False)
    objective, setting = Seq2SeqObjective(), Setting(tokenizer, 40)
    (found,) = list(objective.feed(data, replace(corpus, validation=corpus.train), setting, 8, held_out=True).once())
    for row, (source, target) in enumerate(RECORDS):
        wanted = words(source, text_target=target)
        assert found.tokens[row][~found.padding[row]].tolist() == wanted["input_ids"]
        assert found.targets[row][found.targets[row] != IGNORED].tolist() == wanted["labels"]
    given = words([a for a, _ in RECORDS], padding=True, return_tensors="pt")
    labels = words(text_target=[b for _, b in RECORDS], padding=True, return_tensors="pt")
    wanted = labels["input_ids"].masked_fill(labels["attention_mask"] == 0, IGNORED)
    entered: list[torch.Tensor] = []
    theirs.get_decoder().register_forward_pre_hook(lambda _, given, named: entered.append(named["input_ids"]), with_kwargs=True)
    with torch.no_grad():
        loss = theirs(given["input_ids"], attention_mask=given["attention_mask"], labels=wanted).loss
        mine = loss_of(objective, model.eval(), found, None) / found.count
    real, (shifted,) = ~found.decoder_padding[:, : wanted.shape[1]], entered
    assert torch.equal(real, wanted != IGNORED)
    assert torch.equal(found.decoder_tokens[:, : wanted.shape[1]][real], shifted[real])
    assert found.count == int((wanted != IGNORED).sum())
    torch.testing.assert_close(mine, loss, rtol=0, atol=1e-5)


def test_languages_are_chosen_with_the_data(directory, tmp_path):
    place = directory("mbart50")
    words, tokenizer = AutoTokenizer.from_pretrained(place, src_lang="ro_RO", tgt_lang="de_DE"), Tokenizer.load(place)
    data = TextPairs(paths=("x",), source_language="ro_RO", target_language="de_DE")
    texts = ("say two", "three")
    found = data.numbers({}, tokenizer.encode_batch(texts), tokenizer, {})
    wanted = words(texts[0], text_target=texts[1])
    assert found == {"source": wanted["input_ids"], "target": wanted["labels"]}
    assert tokenizer.framed(tokenizer.encode("two")).tokens == AutoTokenizer.from_pretrained(place)("two")["input_ids"]
    with pytest.raises(DataError, match=r"source_language = 'ro_R0': is no language .* did you mean 'ro_RO'"):
        Sides.of(tokenizer, "ro_R0")
    with pytest.raises(DataError, match=r"target_language = 'ro_RO': this tokenizer puts no language around a text"):
        Sides.of(Tokenizer.load(directory("t5")), None, "ro_RO")


OBJECTIVES = {
    "spans": SpanCorruptionObjective(rate=0.3, span=2.0),
    "denoising": DenoisingObjective(hiding="deletion"),
    "ul2": UL2Objective(denoisers=(Denoiser(rate=0.3, span=2.0),)),
}


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("name", ["t5", "bart", "mbart"])
def test_objectives_on_running_text_frame_sources_and_targets_alike(directory, name, kind):
    """Every row is made of as much text as leaves room for the frame, and shifted as the model does it."""
    tokenizer, objective, length = Tokenizer.load(directory(name)), OBJECTIVES[kind], 24
    if kind != "denoising" and name == "mbart":
        return  # it has no sentinels
    sides = Sides.of(tokenizer)
    window = objective.window(length - objective.beyond(tokenizer))
    words = np.full((2, window), NUMBER["the"])
    found = objective.examples(Batch(words, words, np.arange(2)), Setting(tokenizer, length))
    assert length - 1 <= max(found.tokens.shape[1], found.targets.shape[1]) <= length
    for row in range(2):
        source, target = found.tokens[row].tolist(), found.targets[row][found.targets[row] != IGNORED].tolist()
        if found.padding is not None:
            source = found.tokens[row][~found.padding[row]].tolist()
        for line, frame in ((source, sides.source), (target, sides.target)):
            assert tuple(line[: len(frame.before)]) == frame.before
            assert tuple(line[-len(frame.behind) :]) == frame.behind
            assert line[len(line) - len(frame.behind) - 1] not in frame.behind
        assert found.decoder_tokens[row, : len(target)].tolist() == sides.entered(target)


def test_a_decoder_of_no_authors_starts_with_the_token_that_ends_a_text():
    tokenizer = Tokenizer.parse(tokenizers.Tokenizer(models.WordLevel({"a": 0, "</s>": 1})).to_str(), {"eos_token": "</s>"})
    sides = Sides.of(tokenizer)
    assert (sides.source.count, sides.target.behind, sides.start) == (0, (1,), 1)
    assert sides.opening == (1,)
    assert Sides.of_running_text(tokenizer).source.behind == (1,)
