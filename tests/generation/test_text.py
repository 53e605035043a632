"""Text as transformers gives it: with each kind of tokenizer, several ends, the authors' settings, and by the command."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import anyformer as af
from anyformer.describe import UserError
from anyformer.generation import GREEDY, Beams, Decoding, Lookup, Sampling, generate, generated, stream
from anyformer.generation.processors import BadWords, ForcedFirst, FrequencyPenalty, Processor, RepetitionPenalty, SequenceBias
from anyformer.generation.settings import decoding_for
from as_transformers import CONFIGS

CORPUS = [
    "the model is of the text and the end of it .",
    "once upon a time there was a letter , née in Köln",
    "say 3 4 :-)",
] * 9
SPECIAL = ["<pad>", "<s>", "</s>", "<end>", "<unk>"]
PAD, BEGIN, CLOSE, END, UNKNOWN = range(5)
PROMPTS = ["the model is of", "once upon", "say 3"]


def letters_and_words(before):
    """The text's letters and its words behind `before`, with how often each occurs, the most frequent first.

    The trainers of unigrams and of word pieces give another vocabulary in each process (their tables are hashed with
    random seeds), and with it another text, which may be empty.
    """
    counts = Counter(before + word for line in CORPUS for word in line.split())
    counts.update(letter for line in CORPUS for letter in line if letter != " ")
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def trained(kind):
    """A tokenizer of the kind, which puts `<s>` before a text."""
    trainer = None
    if kind == "metaspace":
        inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
        inner.decoder = decoders.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=SPECIAL)
    elif kind == "llama":
        inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        inner.normalizer = tokenizers.normalizers.Sequence(
            [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
        )
        inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        trainer = trainers.BpeTrainer(vocab_size=150, special_tokens=SPECIAL)
    elif kind == "unigram":
        pieces = [("▁", -6.0), *((piece, math.log(count / 900)) for piece, count in letters_and_words("▁"))]
        inner = tokenizers.Tokenizer(models.Unigram([*((name, 0.0) for name in SPECIAL), *pieces], unk_id=UNKNOWN))
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    elif kind == "wordpiece":
        names = [
            *SPECIAL,
            *(piece for piece, _ in letters_and_words("")),
            *sorted({f"##{letter}" for letter in "".join(CORPUS)}),
        ]
        vocabulary = {name: index for index, name in enumerate(dict.fromkeys(names))}
        inner = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(cleanup=False)
    else:
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
    if trainer is None:
        inner.add_special_tokens(SPECIAL)
    else:
        inner.train_from_iterator(CORPUS, trainer)
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BEGIN)])
    return inner


class Speaker:
    """A model with random weights, in transformers and here, with a tokenizer and settings of generation."""

    def __init__(self, directory, kind="metaspace", model="llama", more=0, **generation):
        self.directory = directory
        fast = transformers.PreTrainedTokenizerFast(
            tokenizer_object=trained(kind), bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
            padding_side="left", clean_up_tokenization_spaces=False,
        )  # fmt: skip
        make, settings = CONFIGS[model]
        torch.manual_seed(1)
        theirs = make(make.config_class(vocab_size=len(fast) + more, **settings)).eval()
        with torch.no_grad():
            for weight in theirs.parameters():
                weight.mul_(6 if weight.dim() > 1 else 1)
        theirs.generation_config = transformers.GenerationConfig(
            bos_token_id=BEGIN, eos_token_id=[CLOSE, END], pad_token_id=PAD, **generation
        )
        self.tokenizer, self.model = fast, theirs
        self.save()

    def save(self):
        self.tokenizer.save_pretrained(self.directory)
        self.model.save_pretrained(self.directory)

    def loaded(self):
        model, tokenizer = af.load(self.directory)
        return model.eval(), tokenizer

    def texts(self, prompts, special=False, **settings):
        """What transformers says, alone behind each prompt."""
        found = []
        for prompt in prompts:
            given = self.tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
            rows = self.model.generate(**given, **settings)
            if self.model.config.is_encoder_decoder:
                found += [self.tokenizer.decode(row[1:], skip_special_tokens=not special) for row in rows]
                continue
            decode = lambda ids: self.tokenizer.decode(ids, skip_special_tokens=not special)  # noqa: E731
            before = len(decode(given["input_ids"][0]))
            found += [decode(row)[before:] for row in rows]
        return found


@pytest.mark.parametrize("kind", ["metaspace", "llama", "unigram", "wordpiece", "bytes"])
def test_texts_are_those_of_transformers(kind, tmp_path):
    """Prompts as its tokenizer frames them, every end, the first blank of a continuation, whole and in pieces."""
    speaker = Speaker(tmp_path, kind, repetition_penalty=1.3, no_repeat_ngram_size=3, max_new_tokens=14)
    model, tokenizer = speaker.loaded()
    for special in (False, True):
        expected = speaker.texts(PROMPTS, special)
        assert all(expected)
        assert kind == "bytes" or any(text.startswith(" ") for text in expected), "a blank that may be lost"
        assert generate(model, tokenizer, PROMPTS, special=special) == expected
        assert [generate(model, tokenizer, prompt, special=special) for prompt in PROMPTS] == expected
        pieces = [""] * 3
        for row, piece in stream(model, tokenizer, PROMPTS, batch=2, special=special):
            pieces[row] += piece
        assert pieces == expected
    beams = {"num_beams": 3, "length_penalty": 0.5}
    expected = speaker.texts(PROMPTS, **beams)
    # What is not asked for stays as the authors say.
    assert generate(model, tokenizer, PROMPTS, beams=Beams(count=3, length_penalty=0.5)) == expected


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_a_target_starts_as_its_decoder_does(kind, tmp_path):
    """text.md B: the decoder's own first token, a source as its tokenizer frames it, forced tokens."""
    more = {"t5": {"decoder_start_token_id": PAD}, "bart": {"decoder_start_token_id": CLOSE, "forced_bos_token_id": 9}}[kind]
    speaker = Speaker(tmp_path, "metaspace", kind, max_length=12, **more)
    speaker.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", BEGIN), ("</s>", CLOSE)]
    )
    speaker.save()
    model, tokenizer = speaker.loaded()
    expected = speaker.texts(PROMPTS)
    assert generate(model, tokenizer, PROMPTS) == expected
    assert generate(model, tokenizer, PROMPTS, batch=2) == expected
    # What a model must say first it says whatever else its tokens are chosen by.
    assert generate(model, tokenizer, PROMPTS, sampling=GREEDY) == expected
    assert generate(model, tokenizer, PROMPTS, beams=Beams(count=2)) == speaker.texts(PROMPTS, num_beams=2)


class Script(Processor):
    """The model says these tokens, one after the other and again."""

    tokens: tuple[int, ...]

    def apply(self, scores_BV, texts):
        certain = torch.full_like(scores_BV, -9.0)
        for row, made in enumerate(texts.made):
            certain[row, self.tokens[made % len(self.tokens)]] = 9.0
        return certain


def says(tokenizer, *words):
    """A sampling that writes these tokens."""
    numbers = {tokenizer.token(number): number for number in range(tokenizer.vocab_size)}
    return Sampling(temperature=0, processors=(Script(tokens=tuple(numbers[word] for word in words)),))


def test_the_first_blank_is_kept_and_stops_match_it(tmp_path):
    """text.md M: `of` goes on with ` the`, and a stop string may begin with the blank."""
    model, tokenizer = Speaker(tmp_path, "metaspace").loaded()
    how = {"sampling": says(tokenizer, "▁the", "▁model", "▁is"), "max_tokens": 3}
    assert generate(model, tokenizer, "of", **how) == " the model is"
    assert generate(model, tokenizer, "of", stop=[" model"], **how) == " the"
    assert generate(model, tokenizer, "of", stop=[" the"], **how) == ""
    assert generate(model, tokenizer, "of", stop=["e mod"], **how) == " th", "across tokens"


@pytest.mark.parametrize("kind", ["metaspace", "bytes"])
def test_stops_match_special_tokens_which_are_not_shown(kind, tmp_path):
    """text.md N: a model says the<unk>model, `--stop "<unk>"` ends before it."""
    model, tokenizer = Speaker(tmp_path, kind).loaded()
    word = {"metaspace": "▁model", "bytes": "Ġmodel"}[kind]
    how = {"sampling": says(tokenizer, word, "<unk>", word), "max_tokens": 3}
    assert generate(model, tokenizer, "of", **how) == " model model"
    assert generate(model, tokenizer, "of", special=True, **how) == f" model<unk>{' model'}"
    assert generate(model, tokenizer, "of", stop=["<unk>"], **how) == " model"
    assert generate(model, tokenizer, "of", stop=["<unk>"], special=True, **how) == " model"
    assert generate(model, tokenizer, "of", stop=["del<un"], **how) == " mo"
    assert generate(model, tokenizer, "of", stop=["k> mo"], **how) == " model"
    assert (
        generate(model, tokenizer, "of", stop=["<unk"], beams=Beams(count=2), max_tokens=3, sampling=how["sampling"])
        == " model"
    )


def test_numbers_beyond_the_tokenizer_are_never_chosen(tmp_path):
    """text.md J: a table padded to more rows than its tokenizer has tokens."""
    speaker = Speaker(tmp_path, "metaspace", more=7)
    with torch.no_grad():
        speaker.model.lm_head.weight[-7:] *= 50
    speaker.save()
    model, tokenizer = speaker.loaded()
    beyond = range(tokenizer.vocab_size, tokenizer.vocab_size + 7)
    given = speaker.tokenizer("the", return_tensors="pt", return_token_type_ids=False)
    there = speaker.model.generate(**given, max_new_tokens=12)[0, 2:].tolist()
    assert set(there) & set(beyond), "transformers chooses them"
    for more in (
        {}, {"sampling": Sampling(temperature=2.0)}, {"beams": Beams(count=3)}, {"batch": 1}, {"draft": model, "batch": 1},
        {"sampling": Sampling(processors=(FrequencyPenalty(penalty=0.5),))},
    ):  # fmt: skip
        for answer in generated(model, tokenizer, ["the", "of"], max_tokens=12, **more):
            assert max(answer.tokens) < tokenizer.vocab_size
    suppressed = speaker.model.generate(**given, max_new_tokens=12, suppress_tokens=list(beyond))[0]
    expected = suppressed[given["input_ids"].shape[1] :].tolist()
    assert list(generated(model, tokenizer, ["the"], max_tokens=12)[0].tokens) == expected


def test_every_end_stops_and_says_so(tmp_path):
    model, tokenizer = Speaker(tmp_path).loaded()
    for word in ("</s>", "<end>"):
        [answer] = generated(model, tokenizer, ["of"], sampling=says(tokenizer, "▁the", word), max_tokens=9)
        assert (answer.text, answer.reason, len(answer.tokens)) == (" the", "end", 2)
    [answer] = generated(model, tokenizer, ["of"], sampling=says(tokenizer, "▁the"), max_tokens=4)
    assert (answer.text, answer.reason) == (" the the the the", "length")
    [answer] = generated(model, tokenizer, ["of"], sampling=says(tokenizer, "▁the"), max_tokens=4, stop=["e t"])
    assert (answer.text, answer.reason, len(answer.tokens)) == (" th", "stop", 2)
    [answer] = generated(model, tokenizer, ["of"], sampling=says(tokenizer, "▁the"), max_tokens=100, max_time=0.0)
    assert (answer.reason, len(answer.tokens) < 100) == ("time", True)


def test_chances_are_those_of_transformers(tmp_path):
    """The log-softmax of the model's logits, in batches, at few places, with proposals."""
    speaker = Speaker(tmp_path, repetition_penalty=1.2)
    model, tokenizer = speaker.loaded()
    expected = []
    for prompt in PROMPTS:
        given = speaker.tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        found = speaker.model.generate(**given, max_new_tokens=8, output_logits=True, return_dict_in_generate=True)
        logs = torch.stack(found.logits, 1)[0].log_softmax(-1)
        expected.append((found.sequences[0, -len(logs) :], logs))
    for more in ({}, {"batch": 2}, {"draft": model}):
        answers = generated(model, tokenizer, PROMPTS, max_tokens=8, logprobs=3, **more)
        for answer, (tokens, logs) in zip(answers, expected, strict=True):
            assert list(answer.tokens) == tokens.tolist()
            own = torch.tensor([each.logprob for each in answer.chances])
            torch.testing.assert_close(own, logs.gather(1, tokens[:, None])[:, 0], atol=1e-4, rtol=1e-4)
            best = logs.topk(3)
            assert [[token for token, _ in each.likeliest] for each in answer.chances] == best.indices.tolist()
            found = torch.tensor([[value for _, value in each.likeliest] for each in answer.chances])
            torch.testing.assert_close(found, best.values, atol=1e-4, rtol=1e-4)
    assert generated(model, tokenizer, ["of"], max_tokens=2, logprobs=0)[0].chances[0].likeliest == ()
    assert generated(model, tokenizer, ["of"], max_tokens=2)[0].chances == ()


def test_answers_are_drawn_apart_and_alike_however_they_are_computed(tmp_path):
    model, tokenizer = Speaker(tmp_path).loaded()
    parts = (FrequencyPenalty(penalty=0.7), SequenceBias(runs=(((7,), 1.0), ((8, 9), 2.0))), BadWords(runs=((10,), (11, 12))))
    for sampling in (Sampling(seed=3), Sampling(seed=(1, 2, 3, 4, 5, 6)), Sampling(seed=3, processors=parts)):
        how = {"max_tokens": 10, "answers": 3, "sampling": sampling}
        whole = generate(model, tokenizer, PROMPTS[:2], **how)
        assert [len(each) for each in whole] == [3, 3]
        assert len({text for each in whole for text in each}) == 6
        for batch in (1, 2, 4):
            assert generate(model, tokenizer, PROMPTS[:2], batch=batch, **how) == whole
    alone = [generate(model, tokenizer, PROMPTS[0], max_tokens=10, sampling=Sampling(seed=seed)) for seed in (1, 2, 3)]
    assert generate(model, tokenizer, PROMPTS[0], max_tokens=10, answers=3, sampling=Sampling(seed=(1, 2, 3))) == alone
    with pytest.raises(UserError, match="2 seeds are given, and 1 texts are made"):
        generate(model, tokenizer, "of", sampling=Sampling(seed=(1, 2)))


def test_penalties_with_proposals_give_the_same_greedy_text(tmp_path):
    model, tokenizer = Speaker(tmp_path, repetition_penalty=1.2, min_new_tokens=5, max_new_tokens=20).loaded()
    plain = generate(model, tokenizer, PROMPTS)
    assert generate(model, tokenizer, PROMPTS, draft=model) == plain
    assert generate(model, tokenizer, PROMPTS, draft=Lookup(shortest=1)) == plain
    # What was proposed without a draw is verified by the draws that the text would have had.
    drawn = Sampling(seed=4, temperature=0.4, processors=(RepetitionPenalty(penalty=1.1), FrequencyPenalty(penalty=0.2)))
    plain = generate(model, tokenizer, PROMPTS, sampling=drawn)
    assert generate(model, tokenizer, PROMPTS, sampling=drawn, draft=Lookup(shortest=1)) == plain


def test_a_model_without_authors_is_drawn_from(tmp_path):
    """Trained here, it has no such files; one of transformers without settings takes the likeliest token, as there."""
    speaker = Speaker(tmp_path)
    model, tokenizer = speaker.loaded()
    assert generate(model, tokenizer, "of", max_tokens=6) == speaker.texts(["of"], max_new_tokens=6)[0]
    (tmp_path / "generation_config.json").unlink()
    _, plain = speaker.loaded()
    assert generate(model, plain, "of", max_tokens=6) == speaker.texts(["of"], max_new_tokens=6)[0]
    assert generate(model, None, [1, 7], max_tokens=6) == generate(
        model, None, [1, 7], max_tokens=6, sampling=Sampling(temperature=0.8)
    )


def test_a_sampling_of_ones_own_leaves_all_but_manners(tmp_path):
    """What a model must say, or must not, is part of how it is spoken to; what cannot be computed is then not asked for."""
    table = {"forced_bos_token_id": 9, "suppress_tokens": [7], "begin_suppress_tokens": [8], "stop_strings": ["X"]}
    model, tokenizer = Speaker(tmp_path, max_new_tokens=4, guidance_scale=2.0, repetition_penalty=2.0, **table).loaded()
    with pytest.raises(UserError, match=r"generation_config.json: guidance_scale = 2.0"):
        generate(model, tokenizer, "of")
    found = decoding_for(tokenizer, {"sampling": Sampling(temperature=0.5)})
    parts = [type(part).__name__ for part in found.sampling.parts]
    assert parts == ["ForcedFirst", "Suppress", "SuppressFirst", "TemperatureWarper"]
    assert (found.max_tokens, found.stop) == (4, ("X",))
    own = Sampling(processors=(ForcedFirst(token=3),))
    assert decoding_for(tokenizer, {"sampling": own}).sampling.processors[0] == ForcedFirst(token=3), "one's own counts"
    assert len(generated(model, tokenizer, ["of"], sampling=GREEDY)[0].tokens) == 4


def test_the_command_says_what_the_authors_choose_and_flags_override(tmp_path, call):
    speaker = Speaker(tmp_path, do_sample=True, temperature=0.6, top_p=0.95, max_new_tokens=5)
    done = call("generate", str(tmp_path), "the model")
    assert "as its authors: temperature 0.6, top-k 50, top-p 0.95" in done.stderr
    greedy = call("generate", str(tmp_path), "the model", "--temperature", "0")
    assert greedy.stdout.strip() == "the model" + speaker.texts(["the model"], do_sample=False)[0].rstrip()
    done = call("generate", str(tmp_path), "the model", "--temperature", "0.3", "--repetition-penalty", "1.2", "-n", "3")
    assert "temperature 0.3, repetition-penalty 1.2, top-k 50, top-p 0.95" in done.stderr
    model, tokenizer = speaker.loaded()
    done = call("generate", str(tmp_path), "the model", "--beams", "3", "--answers", "2", "--temperature", "0", "-n", "4")
    [best] = generate(model, tokenizer, ["the model"], beams=Beams(count=3), answers=2, decoding=Decoding(GREEDY), max_tokens=4)
    assert [line for line in done.stdout.splitlines() if line[:3] != "---"] == [f"the model{text}" for text in best]
    done = call(
        "generate", str(tmp_path), "of", "--temperature", "0", "--logprobs", "2", "-n", "3", "--ban", "the", "--special"
    )
    assert len(done.stdout.splitlines()) == 4
    banned = BadWords(runs=(tuple(tokenizer.encode("the")),))
    how = {"sampling": GREEDY.but(processors=(banned,)), "special": True, "max_tokens": 3}
    assert done.stdout.splitlines()[0] == "of" + generate(model, tokenizer, "of", **how)
    for flags, words in (
        (("--length-penalty", "2"), "--length-penalty is about a search with beams"),
        (("--setting", "typical_q=1"), "did you mean 'typical_p'"), (("--setting", "top_h=x"), "'x' is no JSON"),
        (("--bias", "yes"), "--bias: ['yes'] should be texts with numbers"),
        (("--answers", "2", "--temperature", "0"), "all be the same"),
        (("--beams", "2", "--draft", "lookup"), "leave the draft or the beams out"), (("--top-p", "x"), "top-p"),
    ):  # fmt: skip
        done = call("generate", str(tmp_path), "the model", *flags)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr.replace("\n", " ")
    table = json.loads((tmp_path / "generation_config.json").read_text()) | {"guidance_scale": 2.0}
    (tmp_path / "generation_config.json").write_text(json.dumps(table))
    done = call("generate", str(tmp_path), "the model")
    assert (done.returncode, done.stdout) == (2, "")
    assert "guidance_scale = 2.0 is not computed here" in done.stderr
    assert call("generate", str(tmp_path), "the model", "--no-authors", "--temperature", "0").returncode == 0
