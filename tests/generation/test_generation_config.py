"""A model's settings of generation: every key of transformers' class is honoured, without effect, or refused by name."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from transformers import GenerationConfig

from anyformer.describe import Notice, UserError
from anyformer.generation import GREEDY, Beams, Decoding, decoding_of
from anyformer.generation.generation_config import DRAWN, INERT, PARTS, REFUSED, STRATEGY
from anyformer.generation.prefixes import Prefixes
from anyformer.text.conventions import IDS
from as_transformers import VOCABULARY, both

TEXTS, ENDS = [[5, 9, 5, 9, 12, 5], [7, 7, 8, 9, 6, 7]], [3, 11]


def test_every_key_of_transformers_is_known():
    """A key that a later version adds fails here: honour it, say why it changes nothing, or refuse it by name."""
    theirs = {key for key in vars(GenerationConfig()) if not key.startswith("_")} | {"transformers_version"}
    ours = {*PARTS, *DRAWN, *STRATEGY, *IDS, *INERT, *REFUSED}
    assert theirs - ours == set()
    assert {key for key in ours - theirs if not key.startswith("_")} == set(), "nothing is invented"
    groups = (set(PARTS), set(DRAWN), STRATEGY, set(IDS), set(INERT), set(REFUSED))
    assert sum(map(len, groups)) == len(ours), "each stands in one table"


TABLES = [
    {},
    {"do_sample": True, "temperature": 0.6, "top_p": 0.95},
    {"do_sample": True, "top_k": 0, "min_p": 0.05, "typical_p": 0.9, "epsilon_cutoff": 0.001, "eta_cutoff": 0.002},
    {"do_sample": True, "top_k": 7, "top_h": 0.6, "temperature": 1, "renormalize_logits": True},
    {"temperature": 0.3, "top_p": 0.4, "top_k": 3, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    {"sequence_bias": [[[5], 2.0], [[9, 12], -3.0]], "bad_words_ids": [[6], [7, 8], [3]], "min_new_tokens": 9, "min_length": 2},
    {"min_length": 7, "encoder_repetition_penalty": 1.2, "encoder_no_repeat_ngram_size": 2, "remove_invalid_values": True},
    {"exponential_decay_length_penalty": [1, 1.3], "suppress_tokens": [1, 4], "begin_suppress_tokens": [5, 8]},
    {"forced_bos_token_id": 4, "forced_eos_token_id": [3, 6], "begin_suppress_tokens": [5, 8], "max_new_tokens": 4},
    {"repetition_penalty": 1.0, "top_p": 1.0, "num_beams": 1, "penalty_alpha": 0.0, "guidance_scale": 1, "num_beam_groups": 1},
]


@pytest.mark.parametrize("number", range(len(TABLES)))
def test_the_same_scores_come_of_the_same_table(number, tmp_path):
    """The parts of a table change scores as the processors that transformers makes of it."""
    theirs, _ = both("llama", tmp_path)
    table = TABLES[number]
    config = GenerationConfig(**{"eos_token_id": ENDS, **table})
    config.update(**GenerationConfig._get_default_generation_params(), defaults_only=True)
    config._eos_token_tensor = torch.tensor(ENDS)
    for prompt in (1, 3):
        config.max_length = prompt + table.get("max_new_tokens", 12)
        read = torch.tensor([text[:prompt] for text in TEXTS])
        processors = theirs._get_logits_processor(config, prompt, read, device="cpu", model_kwargs={})
        for made in (0, 1, 3):
            ids = torch.tensor([text[: prompt + made] for text in TEXTS])
            scores = torch.randn(2, VOCABULARY, generator=torch.Generator().manual_seed(made)) * 2
            texts = Prefixes.of(read.tolist(), ends=ENDS, most=table.get("max_new_tokens", 12))
            for token in ids[:, prompt:].T:
                texts.add(token)
            decoding = decoding_of(table)
            found = decoding.sampling.scores(scores, texts)
            torch.testing.assert_close(found, processors(ids, scores.clone()), rtol=0, atol=1e-6)
            assert decoding.sampling.greedy == (not table.get("do_sample", False))


def test_lengths_beams_and_answers():
    found = decoding_of(
        {"num_beams": 4, "length_penalty": 2, "early_stopping": True, "num_return_sequences": 2, "max_length": 20}
    )
    assert found.beams == Beams(count=4, length_penalty=2.0, early_stopping=True)
    assert (found.answers, found.most(5), found.sampling) == (2, 15, GREEDY)
    with pytest.raises(
        UserError, match="the prompt has 20 tokens, and the model's max_length for prompt and text together is 20"
    ):
        found.most(20)
    assert decoding_of({"max_new_tokens": 7, "max_length": 20}).most(50) == 7
    assert decoding_of({}).most(50) == 128
    assert decoding_of({"stop_strings": "END", "max_time": 2.5}) == Decoding(GREEDY, stop=("END",), max_time=2.5)


def test_the_choice_is_said_in_words():
    told = lambda **table: str(decoding_of(table))  # noqa: E731
    assert told() == "the likeliest token"
    assert told(do_sample=True, temperature=0.6, top_p=0.95, top_k=20) == "temperature 0.6, top-k 20, top-p 0.95"
    assert told(do_sample=True) == "temperature 1, top-k 50"
    assert told(num_beams=4, length_penalty=2.0, num_return_sequences=2) == "4 beams, length penalty 2, 2 answers"
    assert told(repetition_penalty=1.1) == "the likeliest token, repetition-penalty 1.1"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"guidance_scale": 1.5}, "guidance_scale = 1.5 is not computed here: it needs a second pass"),
        ({"watermarking_config": {"bias": 2.0}}, "watermarking_config = .* it marks texts"),
        ({"token_healing": True}, "token_healing = True"),
        ({"penalty_alpha": 0.6, "top_k": 4}, "penalty_alpha = 0.6 .* contrastive search"),
        ({"dola_layers": "high"}, "dola_layers"),
        ({"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0}, "groups of beams"),
        ({"force_words_ids": [[1]]}, "constrained beams"),
        ({"repetition_penalty": 0.0}, "repetition_penalty = 0.0 is no setting"),
        ({"exponential_decay_length_penalty": [1]}, "exponential_decay_length_penalty"),
        ({"bad_words_ids": [1]}, "bad_words_ids"),
        ({"do_sample": True, "top_p": "high"}, "top_p = 'high'"),
        ({"do_sample": True, "top_p": 95.0}, "top_p = 95.0 is no setting"),
        ({"num_beams": 2, "early_stopping": "soon"}, "early_stopping = 'soon'"),
        ({"num_beams": "many"}, "num_beams = 'many'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(table, words):
    with pytest.raises(UserError, match=words):
        decoding_of(table, "model/generation_config.json")


def test_what_nobody_reads_is_told():
    with pytest.warns(Notice, match="chat_format: no setting of generation that transformers reads"):
        decoding_of({"chat_format": "chatml"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoding_of({"use_cache": False, "transformers_version": "5.0", "eos_token_id": 3, "output_scores": True})


def test_json_round_trip_of_published_tables():
    """Tables as Llama 3, Qwen 3, BART and Whisper publish them."""
    for text, words in (
        ('{"bos_token_id": 128000, "do_sample": true, "eos_token_id": [128001, 128008], "temperature": 0.6, "top_p": 0.9}',
         "temperature 0.6, top-k 50, top-p 0.9"),
        ('{"bos_token_id": 1, "do_sample": true, "eos_token_id": [2, 3], "pad_token_id": 1, "temperature": 0.6, "top_k": 20, '
         '"top_p": 0.95, "transformers_version": "4.51.0"}', "temperature 0.6, top-k 20, top-p 0.95"),
        ('{"decoder_start_token_id": 2, "early_stopping": true, "eos_token_id": 2, "forced_bos_token_id": 0, '
         '"forced_eos_token_id": 2, "length_penalty": 2.0, "max_length": 142, "min_length": 56, "no_repeat_ngram_size": 3, '
         '"num_beams": 4, "pad_token_id": 1}',
         "4 beams, length penalty 2, early stopping True, no-repeat-ngrams 3, min-length 56, forced-first 0, forced-last (2,)"),
    ):  # fmt: skip
        assert str(decoding_of(json.loads(text))) == words
