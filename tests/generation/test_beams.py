"""Beam search: token for token as transformers, over states as by computing everything again."""

from __future__ import annotations

import pytest
import torch
from zoo import DECODERS, PAIRS, PROMPTED_DECODERS

from anyformer.describe import UserError
from anyformer.generation import Beams, Sampling, generate, generated
from anyformer.generation.beams import searched
from anyformer.generation.processors import MinNewTokens, NoRepeatNGrams, RepetitionPenalty
from anyformer.generation.recorded import RecordedDecode
from anyformer.model.transformer import build
from as_transformers import both, continued_there, without_padding
from covering import others_slow, remembering

GREEDY = Sampling(temperature=0)
EVERY = {**DECODERS, **PAIRS, **PROMPTED_DECODERS}
PROMPTS = [[5, 9, 12, 30, 8], [7, 6], [33]]
START = {"t5": 0, "bart": 2}
CASES = [
    {"num_beams": 3},
    {"num_beams": 4, "num_return_sequences": 3, "length_penalty": 0.0},
    {"num_beams": 3, "length_penalty": 2.5, "early_stopping": "never"},
    {"num_beams": 3, "length_penalty": -1.0, "early_stopping": "never", "num_return_sequences": 3},
    {"num_beams": 4, "early_stopping": True, "num_return_sequences": 2},
    {"num_beams": 2, "repetition_penalty": 1.6, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
]
PARTS = {
    "repetition_penalty": lambda value: RepetitionPenalty(penalty=value),
    "no_repeat_ngram_size": lambda value: NoRepeatNGrams(size=value),
    "min_new_tokens": lambda value: MinNewTokens(tokens=value),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return {kind: both(kind, tmp_path_factory.mktemp(kind)) for kind in ("llama", "mistral", "t5", "bart")}


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("kind", ["llama", "mistral", "t5", "bart"])
def test_texts_and_scores_are_those_of_transformers(models, kind, case):
    theirs, ours = models[kind]
    asked, start = CASES[case], START.get(kind)
    for ends in ([3], [3, 11, 20, 28, 31, 36], list(range(3, 40, 2))):
        expected = continued_there(theirs, PROMPTS, max_new_tokens=12, eos_token_id=ends, output_scores=True, **asked)
        before = 1 if start is not None else max(map(len, PROMPTS))
        beams = Beams(
            count=asked["num_beams"],
            length_penalty=asked.get("length_penalty", 1.0),
            early_stopping=asked.get("early_stopping", False),
        )
        answers = asked.get("num_return_sequences", 1)
        sampling = GREEDY.but(processors=tuple(make(asked[key]) for key, make in PARTS.items() if key in asked))
        found = searched(
            ours, PROMPTS, beams, answers=answers, sampling=sampling, max_tokens=12, ends=ends, start=start,
            step=RecordedDecode(), multiple=16,
        )  # fmt: skip
        texts = [list(each.tokens) for best in found for each in best]
        assert texts == without_padding(expected.sequences, before, ends)
        scores = torch.tensor([each.score for best in found for each in best])
        torch.testing.assert_close(scores, expected.sequences_scores, atol=1e-4, rtol=1e-4)


def plainly(model, prompt, count, most, ends, start):
    """The same search with lists, computing the whole texts of beams again at each step; length penalty 1, no early end."""
    running, done = [(0.0, [])], []
    for made in range(1, most + 1):
        candidates, rows = [], len(running)
        with torch.inference_mode():
            if start is None:
                texts = torch.tensor([prompt + text for _, text in running])
                logits = model(texts, prefix=torch.tensor([len(prompt)] * rows))
            else:
                logits = model(torch.tensor([prompt] * rows), torch.tensor([[start, *text] for _, text in running]))
        for (score, text), logs in zip(running, logits[:, -1].float().log_softmax(-1), strict=True):
            candidates += [(score + float(log), [*text, token]) for token, log in enumerate(logs)]
        candidates = sorted(candidates, key=lambda each: -each[0])[: (1 + max(1, len(ends))) * count]
        ending = [text[-1] in ends or made == most for _, text in candidates]
        done += [(score / made, text) for (score, text), ends_ in zip(candidates[:count], ending, strict=False) if ends_]
        done = sorted(done, key=lambda each: -each[0])[:count]
        running = [each for each, ends_ in zip(candidates, ending, strict=True) if not ends_][:count]
        if not running or (len(done) == count and running[0][0] / made <= done[-1][0]):
            break
    return [text for _, text in done]


@pytest.mark.parametrize("name", others_slow(EVERY, remembering))
def test_beams_over_states_are_those_of_whole_texts(name):
    """Of every kind of decode state: full, ring, latent, recurrent, cross; prompts of unequal length."""
    model = build(EVERY[name]).eval()
    start = 2 if model.architecture.two_inputs else None
    prompts, ends = [[3, 1, 4, 1, 5], [6, 5]], (7, 12, 13)
    found = searched(
        model, prompts, Beams(count=3), answers=3, sampling=GREEDY, max_tokens=6, ends=ends, start=start, step=RecordedDecode()
    )
    for prompt, best in zip(prompts, found, strict=True):
        expected = plainly(model, prompt, 3, 6, ends, start)
        assert [list(each.tokens) for each in best][: len(expected)] == expected


def test_few_prompts_at_a_time_give_the_same_texts(models):
    _, ours = models["llama"]
    how = {"max_tokens": 9, "beams": Beams(count=3), "answers": 2, "ends": (3, 11), "sampling": GREEDY}
    whole = generate(ours, None, PROMPTS, **how)
    assert [len(each) for each in whole] == [2, 2, 2]
    assert generate(ours, None, PROMPTS, batch=1, **how) == whole
    found = generated(ours, None, PROMPTS, **how)
    assert [each.prompt for each in found] == [0, 0, 1, 1, 2, 2]
    assert all(each.score is not None for each in found)


def test_drawn_beams_follow_the_distribution_without_replacement(models):
    """Two of the first tokens are drawn: pairs come as often as by drawing one after the other without replacement."""
    sampling = Sampling(seed=1)
    shares = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).expand(20_000, -1)
    drawn = sampling.draw_several(shares, torch.arange(20_000), 0, 2)
    counts = torch.zeros(4, 4)
    counts.index_put_((drawn[:, 0], drawn[:, 1]), torch.ones(len(drawn)), accumulate=True)
    one = shares[0]
    expected = one[:, None] * one[None] / (1 - one[:, None]) * (1 - torch.eye(4))
    torch.testing.assert_close(counts / len(drawn), expected, atol=0.012, rtol=0)
    _, ours = models["llama"]
    how = {"max_tokens": 8, "beams": Beams(count=3), "sampling": sampling}
    assert generate(ours, None, PROMPTS, **how) == generate(ours, None, PROMPTS, batch=2, **how)
    assert generate(ours, None, PROMPTS, **how) != generate(ours, None, PROMPTS, **{**how, "sampling": Sampling(seed=2)})


def test_contradictions_are_refused(models):
    _, ours = models["llama"]
    for more, words in (
        ({"answers": 4}, "4 answers are more than the 3 beams"),
        ({"draft": ours}, "leave the draft or the beams out"),
        ({"logprobs": 2}, "leave logprobs or the beams out"),
    ):
        with pytest.raises(UserError, match=words):
            generate(ours, None, [1, 2], beams=Beams(count=3), sampling=GREEDY, **more)
    with pytest.raises(UserError, match="2 answers of one prompt would all be the same"):
        generate(ours, None, [1, 2], answers=2, sampling=GREEDY)
