"""Generation: the cache changes nothing, sampling does what it says, text comes whole."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from zoo import DECODERS, ENCODERS, PAIRS

from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import InputError, change
from anyformer.generation import Sampling, continuations, generate, stream
from anyformer.generation.decode import decode
from anyformer.generation.processors import Suppress
from anyformer.generation.sampling import NoChoiceError
from anyformer.generation.steps import stepper
from anyformer.model.transformer import Transformer, build
from covering import others_slow, remembering
from effort import examples

GREEDY = Sampling(temperature=0)


def uncached(model: Transformer, prompt: list[int], count: int) -> list[int]:
    """Greedy continuation by computing everything again at each step."""
    tokens = list(prompt)
    for _ in range(count):
        prefix = torch.tensor([len(prompt)])
        tokens.append(int(model(torch.tensor([tokens]), prefix=prefix)[0, -1].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("name", others_slow(DECODERS, remembering))
def test_greedy_tokens_equal_the_uncached_models(name):
    model = build(DECODERS[name]).eval()
    prompts = [[3, 1, 4, 1, 5, 9, 2], [6, 5], [7]]
    columns = torch.stack(list(continuations(model, prompts, sampling=GREEDY, max_tokens=9)), 1)
    for prompt, row in zip(prompts, columns.tolist(), strict=True):
        assert row == uncached(model, prompt, 9)


@pytest.mark.parametrize("name", others_slow(PAIRS, remembering))
def test_greedy_targets_equal_the_uncached_models(name):
    model = build(PAIRS[name]).eval()
    sources = [[3, 1, 4, 1, 5], [9, 2]]
    columns = torch.stack(list(continuations(model, sources, sampling=GREEDY, max_tokens=6, start=2)), 1)
    for source, row in zip(sources, columns.tolist(), strict=True):
        target = [2]
        for _ in range(6):
            target.append(int(model(torch.tensor([source]), torch.tensor([target]))[0, -1].argmax()))
        assert row == target[1:]


def test_a_row_that_ended_stays_ended():
    model = build(DECODERS["llama"]).eval()
    free = torch.stack(list(continuations(model, [[1], [2]], sampling=GREEDY, max_tokens=8)), 1)
    end = int(free[0, 2])
    ended = torch.stack(list(continuations(model, [[1], [2]], sampling=GREEDY, max_tokens=8, ends=(end,))), 1)
    first = free[0].tolist().index(end)
    assert ended[0, first:].eq(end).all()


def test_the_same_seed_gives_the_same_tokens_and_another_does_not():
    model = build(DECODERS["llama"]).eval()
    draw = lambda seed: torch.stack(list(continuations(model, [[1]], sampling=Sampling(seed=seed), max_tokens=20)))  # noqa: E731
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.07, 0.03]]))


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(), 5),
        (Sampling(top_k=2), 2),
        (Sampling(top_p=0.7), 2),
        (Sampling(top_p=0.76), 3),
        (Sampling(top_p=0.01), 1),
        (Sampling(min_p=0.2), 3),
        (Sampling(top_k=4, min_p=0.2), 3),
    ],
)
def test_cuts_keep_the_likeliest(sampling, kept):
    shares = sampling.distribution(LOGITS)[0]
    assert (shares > 0).tolist() == [i < kept for i in range(5)]
    torch.testing.assert_close(shares[:kept], (LOGITS.exp()[0, :kept] / LOGITS.exp()[0, :kept].sum()))


def test_draws_follow_the_distribution():
    rows = torch.arange(40_000)
    drawn = Sampling(temperature=1.0).choose(LOGITS.expand(len(rows), -1), rows, 0).bincount(minlength=5) / len(rows)
    torch.testing.assert_close(drawn, LOGITS.exp()[0], atol=0.01, rtol=0)
    hot = Sampling(temperature=2.0).distribution(LOGITS)[0]
    torch.testing.assert_close(hot, (LOGITS[0] / 2).softmax(-1))


@examples(50)
@given(st.integers(0, 10_000), st.floats(0.05, 3.0), st.integers(1, 5), st.floats(0.05, 1.0))
def test_a_draw_never_has_probability_zero(index, temperature, top_k, top_p):
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    token = sampling.choose(LOGITS, torch.tensor([3]), index)
    assert sampling.distribution(LOGITS)[0, token] > 0


@pytest.mark.parametrize("bad", [{"top_k": 0}, {"top_p": 0.0}, {"min_p": 1.5}, {"temperature": -1.0}])
def test_senseless_sampling_is_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Sampling(**bad)


@pytest.fixture(scope="module")
def speaker():
    """A model over bytes and its tokenizer."""
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    return build(change(DECODERS["llama"], "embedding.vocab", 257)).eval(), tokenizer


def test_streamed_text_is_the_whole_text(speaker):
    model, tokenizer = speaker
    prompts = ["def ", "x"]
    whole = generate(model, tokenizer, prompts, max_tokens=30, sampling=Sampling(seed=4))
    pieces = ["", ""]
    for row, piece in stream(model, tokenizer, prompts, max_tokens=30, sampling=Sampling(seed=4)):
        pieces[row] += piece
    assert pieces == whole
    assert generate(model, tokenizer, "def ", max_tokens=30, sampling=Sampling(seed=4)) == whole[0]


def test_text_ends_before_a_stop_string_however_it_comes(speaker):
    model, tokenizer = speaker
    sampling = Sampling(seed=5)
    free = generate(model, tokenizer, "def ", max_tokens=60, sampling=sampling)
    for at in (0, 3, 11, 20):
        stop = free[at : at + 3]
        assert (
            generate(model, tokenizer, "def ", max_tokens=60, sampling=sampling, stop=["\0never", stop])
            == free[: free.index(stop)]
        )


def test_an_empty_prompt_starts_from_end_of_text(speaker):
    model, tokenizer = speaker
    assert isinstance(generate(model, tokenizer, "", max_tokens=3), str)


def test_what_cannot_be_generated_is_refused_with_the_reason(speaker):
    _, tokenizer = speaker
    with pytest.raises(InputError, match="encoder-only"):
        generate(build(ENCODERS["encoder"]), tokenizer, "x")
    with pytest.raises(InputError, match="bidirectional"):
        generate(build(change(DECODERS["llama"], "decoder.layer.attention.mask", {"kind": "bidirectional"})), tokenizer, "a")
    with pytest.raises(InputError, match="ends at 32"):
        list(continuations(build(DECODERS["gpt2"]), [[1] * 30], sampling=GREEDY, max_tokens=4))
    assert len(list(continuations(build(DECODERS["gpt2"]), [[1] * 30], sampling=GREEDY, max_tokens=3))) == 3
    with pytest.raises(InputError, match="beyond the vocabulary of 37"):
        list(continuations(build(DECODERS["llama"]), [[37]], sampling=GREEDY, max_tokens=4))
    with pytest.raises(InputError, match="no tokenizer"):
        generate(build(DECODERS["llama"]), None, "x")
    with pytest.raises(InputError, match="stop string is empty"):
        generate(build(DECODERS["llama"]), tokenizer, "x", stop=[""])
    for more in ({"start": 1}, {"source": torch.tensor([[1]])}):
        with pytest.raises(InputError, match="reads one sequence: leave start and source out"):
            list(continuations(build(DECODERS["llama"]), [[1]], sampling=GREEDY, max_tokens=2, **more))
    with pytest.raises(InputError, match="start"):
        list(continuations(build(PAIRS["original"]), [[1]], sampling=GREEDY, max_tokens=2))


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_compiled_step_gives_the_same_tokens_and_serves_one_model_in_one_type(speaker, backend, monkeypatch):
    """Another model of the same shapes, and then the same model in another type, are compiled anew."""
    model, tokenizer = speaker
    if backend == "eager":  # the graph as it is, without generated code
        compiling = torch.compile
        plainly = lambda run, *, options, **how: compiling(run, backend=backend, **how)  # noqa: E731
        monkeypatch.setattr("torch.compile", plainly)

    def continued(speaking, compile):
        return generate(speaking, tokenizer, ["def ", "class Q:"], max_tokens=12, sampling=GREEDY, compile=compile)

    assert continued(model, True) == continued(model, False)
    other = build(change(model.architecture, "decoder.layer.attention.scale", 3.0)).eval()
    assert continued(other, True) == continued(other, False)
    other.to(torch.float64)
    assert continued(other, True) == continued(other, False)


def test_a_compiled_step_meets_another_shape_once_in_128_tokens(speaker):
    model, seen = speaker[0], []

    def step(model, tokens, state):
        seen.append(state.slots.visible)
        return decode(model, tokens, state)

    _, multiple = stepper(130, True)
    list(continuations(model, [[1]], sampling=GREEDY, max_tokens=130, step=step, multiple=multiple))
    assert seen == [128] * 127 + [256] * 2


CHOICES = pytest.mark.parametrize("sampling", [GREEDY, Sampling(), Sampling(top_k=2, temperature=0.5)])


@CHOICES
def test_a_model_whose_scores_become_nan_is_stopped_at_that_token(sampling):
    """argmax takes NaN for the largest, and a softmax of one is all NaN: both gave token after token without a word."""
    model = build(DECODERS["llama"]).eval()
    tokens = continuations(model, [[1], [2]], sampling=sampling, max_tokens=4)
    next(tokens)
    with torch.no_grad():
        model.head.weight[5] = torch.nan
    with pytest.raises(NoChoiceError, match=r"row 0, token 2: the model's scores hold NaN.*--weights fp32"):
        next(tokens)


@CHOICES
def test_an_infinite_score_is_told_with_its_row(sampling):
    scores = LOGITS.repeat(3, 1)
    scores[1, 3] = torch.inf
    with pytest.raises(NoChoiceError, match="row 1, token 6: the model's scores hold an infinity"):
        sampling.choose(scores, torch.arange(3), [4, 5, 6])


def test_a_choice_needs_one_token_that_is_not_ruled_out():
    chosen = GREEDY.choose(torch.tensor([[-torch.inf, 1.0, -torch.inf]]), torch.tensor([0]), 0)
    assert chosen.tolist() == [1]
    every = Sampling(processors=(Suppress(tokens=(0, 1, 2, 3, 4)),))
    for sampling in (every, every.but(temperature=0)):
        with pytest.raises(NoChoiceError, match="row 0, token 8: every token is ruled out"):
            sampling.choose(LOGITS, torch.tensor([0]), [7])
