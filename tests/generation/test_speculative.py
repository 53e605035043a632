"""Speculative decoding: the same greedy tokens and the same distribution, whatever the decode state holds."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
import torch
from zoo import DECODERS, LIMITED, PAIRS, PROMPTED_DECODERS

from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import InputError, change
from anyformer.generation import (
    Acceptance,
    Draft,
    Lookup,
    Sampling,
    continuations,
    generate,
    generate_tokens,
    generating,
    memory,
    stream,
)
from anyformer.generation.drafting import DRAFTED, Proposal
from anyformer.generation.recorded import RecordedDecode
from anyformer.generation.speculative import accepted, speculated
from anyformer.model.transformer import build
from anyformer.testing.comparisons import equal
from covering import others_slow, remembering

GREEDY = Sampling(temperature=0)
EVERY = {**DECODERS, **PAIRS, **PROMPTED_DECODERS}
PROMPTS = [[3, 1, 4, 1, 5, 3, 1, 4], [2], [6, 5, 6, 5, 6, 5, 3]]
MOST = 8


class Oracle:
    """Proposes the true text, with a wrong token now and then: proposals are taken in part, whole, or not at all."""

    def __init__(self, rows, wrong=3, tokens=4):
        self.rows, self.wrong, self.tokens = rows, wrong, tokens

    def check(self, *given):
        pass

    def begin(self, prompt, start, row, sampling, max_tokens):
        self.row, self.calls = self.rows[row], 0
        return self

    def propose(self, text, index, most):
        self.calls += 1
        right = self.row[index : index + min(self.tokens, most)]
        at = self.calls % (self.wrong + 2)
        return Proposal([token if number != at else (token + 1) % 7 for number, token in enumerate(right)])


def plain(model, prompts, sampling=GREEDY):
    """The tokens of each prompt without speculation."""
    start = 2 if model.architecture.two_inputs else None
    rows = [continuations(model, [each], sampling=sampling, max_tokens=MOST, start=start) for each in prompts]
    return [torch.stack(list(row), 1)[0].tolist() for row in rows]


def speculating(model, prompts, drafter, **more):
    rows = [[] for _ in prompts]
    start = 2 if model.architecture.two_inputs else None
    more = {"sampling": GREEDY, "ended": lambda row: False, "start": start, **more}
    for step in speculated(model, prompts, drafter, max_tokens=MOST, **more):
        for row, token, *_ in step:
            rows[row].append(token)
    return rows


@pytest.mark.parametrize("name", others_slow(EVERY, remembering))
def test_greedy_tokens_are_those_without_speculation(name):
    model = build(EVERY[name]).eval()
    expected, counts = plain(model, PROMPTS), Acceptance()
    assert speculating(model, PROMPTS, Oracle(expected), acceptance=counts) == expected
    assert 0 < counts.taken < counts.proposed
    assert counts.tokens == len(PROMPTS) * (MOST - 1)
    assert speculating(model, PROMPTS, DRAFTERS[by_turns(name)](name, model)) == expected


DRAFTERS = {
    "lookup": lambda name, model: Lookup(longest=2, shortest=1),
    "other model": lambda name, model: Draft(build(EVERY[name], seed=1).eval(), tokens=3),
    "itself": lambda name, model: Draft(model, tokens=5),
}


def by_turns(name):
    """One of the drafters: all meet every kind of state in `make test-slow`, and here some."""
    return list(DRAFTERS)[list(EVERY).index(name) % len(DRAFTERS)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "drafter"), [(name, each) for name in EVERY for each in DRAFTERS if each != by_turns(name)])
def test_the_other_drafters_change_no_greedy_token(name, drafter):
    model = build(EVERY[name]).eval()
    assert speculating(model, PROMPTS, DRAFTERS[drafter](name, model)) == plain(model, PROMPTS)


@pytest.mark.parametrize("name", ["llama", "window", "latent_window_gate", "delta_gated", "latent", "streams"])
def test_states_that_grow_and_recorded_steps(name, monkeypatch):
    model = build(EVERY[name]).eval()
    expected = plain(model, PROMPTS)
    recorded = {"step": RecordedDecode(), "multiple": 8}
    assert speculating(model, PROMPTS, Oracle(expected), **recorded) == expected
    monkeypatch.setattr(memory, "BLOCK", 4)
    assert speculating(model, PROMPTS, Oracle(expected)) == expected
    assert speculating(model, PROMPTS, Draft(model), **recorded) == expected


@pytest.mark.parametrize("name", others_slow(EVERY, remembering))
def test_a_state_goes_back_to_any_position_since_its_mark_or_to_the_mark(name):
    model = build(EVERY[name]).eval()
    if model.architecture.two_inputs:
        read = lambda tokens, state: model(source if not state.slots.used else None, tokens, state=state)  # noqa: E731
        source = torch.tensor([[3, 1, 4, 1]])
        state = model.state(1, 30, source=4)
    else:
        read, state = (lambda tokens, state: model(tokens, state=state)), model.state(1, 30)
    text = torch.arange(1, 20)[None] % 7
    with torch.inference_mode():
        read(text[:, :7], state)
        for count, keep in ((3, 0), (3, 1), (2, 2), (6, 4)):
            begun = state.slots.used
            twin, mark = state.fork(torch.tensor([0])), state.mark(count)
            read(text[:, :count] + 1, state)
            held = state.back(mark, keep)
            assert held in (0, keep)
            assert state.slots.used == begun + held
            if held:
                read(text[:, :held] + 1, twin)
            for piece in (text[:, 7:8], text[:, 8:11]):
                equal(read(piece, state), read(piece, twin))


def test_keys_and_values_go_back_by_count_and_sums_to_the_mark():
    held = {}
    for name in ("llama", "latent", "window", "delta", "gpt2"):
        model = build(EVERY[name]).eval()
        state = model.state(1, 20)
        model(torch.tensor([[1, 2, 3, 4, 5, 6]]), state=state)
        mark = state.mark(3)
        model(torch.tensor([[1, 2, 3]]), state=state)
        held[name] = state.back(mark, 2)
    assert held == {"llama": 2, "latent": 2, "window": 2, "delta": 0, "gpt2": 2}


def test_draws_of_what_was_not_drawn_stay_the_same():
    """Text that is looked up changes no token, with temperature either."""
    model, sampling = build(DECODERS["llama"]).eval(), Sampling(seed=5, temperature=0.3)
    counts = Acceptance()
    how = {"max_tokens": 40, "sampling": sampling}
    found = generate_tokens(model, PROMPTS, draft=Lookup(shortest=1), acceptance=counts, **how)
    assert found == generate_tokens(model, PROMPTS, **how)
    assert counts.taken > 0


def chi_square(found: Counter, shares: dict, draws: int) -> float:
    """Pearson's statistic over its degrees of freedom: near 1 for draws from `shares`."""
    return sum((found[each] - draws * p) ** 2 / (draws * p) for each, p in shares.items()) / (len(shares) - 1)


@pytest.mark.parametrize("draws", [1000, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("more", [{}, {"temperature": 0.6}, {"top_k": 3}, {"top_p": 0.8}])
def test_tokens_have_the_distribution_of_the_model(more, draws):
    """Two tokens are proposed from another distribution; the pair that comes has the model's own."""
    torch.manual_seed(0)
    V = 4
    model, draft = torch.randn(1 + V, V) * 1.5, torch.randn(1 + V, V) * 1.5
    after = lambda table, token: table[0 if token is None else 1 + token][None]  # noqa: E731
    found, first = Counter(), Counter()
    for seed in range(draws):
        sampling, row = Sampling(seed=seed, **more), torch.tensor([0])
        tokens, drawn, token = [], [], None
        for index in range(2):
            drawn.append(sampling.distribution(after(draft, token)))
            token = int(sampling.draw(drawn[-1], sampling.uniform(row, index, DRAFTED)))
            tokens.append(token)
        logits = torch.cat([after(model, each) for each in (None, *tokens)])
        given = accepted(Proposal(tokens, torch.cat(drawn)), logits, sampling, 0, 0)
        first[given[0]] += 1
        if len(given) == 1:
            given += [int(sampling.choose(after(model, given[0]), row, 1))]
        found[given[0], given[1]] += 1
    own = lambda token: Sampling(**more).distribution(after(model, token))[0].tolist()  # noqa: E731
    shares = {(a, b): own(None)[a] * own(a)[b] for a, b in product(range(V), repeat=2)}
    shares = {pair: p for pair, p in shares.items() if p > 0}
    assert set(found) <= set(shares)
    assert chi_square(found, shares, draws) < 2
    theirs = Sampling(**more).distribution(after(draft, None))[0].tolist()
    drafted = {a: p for a, p in enumerate(theirs) if p > 0}
    assert chi_square(first, drafted, draws) > 10, "the distributions differ, so the test can tell them apart"


def test_texts_of_a_draft_model_have_the_distribution_of_the_model():
    V, rows = 3, 250
    model, draft = (build(change(DECODERS["llama"], "embedding.vocab", V), seed=seed).eval() for seed in (0, 1))
    counts = Acceptance()
    found = generate_tokens(model, [[1, 2]] * rows, max_tokens=3, draft=Draft(draft, tokens=2), acceptance=counts)
    assert 0 < counts.taken < counts.proposed
    shares = {}
    for text in product(range(V), repeat=3):
        logits = model(torch.tensor([[1, 2, *text]]))[0, 1:4].log_softmax(-1)
        shares[text] = logits[torch.arange(3), torch.tensor(text)].sum().exp().item()
    assert chi_square(Counter(map(tuple, found)), shares, rows) < 1.8


@pytest.mark.parametrize("name", ["llama", "window", "delta_gated", "latent_window_gate"])
def test_a_draft_goes_on_from_the_text_and_not_from_what_was_refused(name):
    model = build(DECODERS[name]).eval()
    begun = lambda: Draft(model, tokens=4).begin([1, 2, 3], None, 0, GREEDY, 40)  # noqa: E731
    text, kept = [1, 2, 3, 4], begun()
    with torch.inference_mode():
        for taken in (0, 1, 3, 4, 2):
            proposed = kept.propose(text, 0, 9).tokens
            assert proposed == begun().propose(text, 0, 9).tokens
            text = [*text, *proposed[:taken], 1 + (proposed[-1] if taken == 4 else proposed[taken]) % 7]


@pytest.mark.parametrize("form", ["int8", "int4-32"])
def test_weights_in_few_bits(form):
    model = generating(build(DECODERS["llama"]).eval(), form)
    draft = generating(build(DECODERS["llama"], seed=2).eval(), form)
    expected = plain(model, PROMPTS)
    for drafter in (Lookup(shortest=1), Draft(draft), Oracle(expected)):
        assert speculating(model, PROMPTS, drafter) == expected


def test_a_lookup_proposes_what_followed_the_longest_run():
    looking = Lookup(tokens=3, longest=3).begin([], None, 0, GREEDY, 9)
    text = [1, 2, 3, 9, 9, 4, 2, 3, 5, 1, 2, 3]
    assert looking.propose(text, 0, 9).tokens == [9, 9, 4]
    assert looking.propose([*text, 9], 0, 2).tokens == [9, 4]
    assert looking.propose([*text, 9, 8], 0, 9).tokens == []
    assert looking.propose([*text, 9, 8, 2, 3], 0, 9).tokens == [9, 8, 2], "the latest of equal runs"
    source = Lookup(tokens=2).begin([4, 5, 6, 7], 0, 0, GREEDY, 9)
    assert source.propose([0, 4, 5], 0, 9).tokens == [6, 7]


def test_texts_end_where_they_do_without_a_draft():
    tokenizer = make_tokenizer(Bytes(), lambda: iter(()), lambda: iter(()))
    model = build(change(DECODERS["llama"], "embedding.vocab", 257)).eval()
    for stop in ((), ("a", "\x10")):
        how = {"max_tokens": 25, "sampling": GREEDY, "stop": stop}
        expected = generate(model, tokenizer, ["def def ", "x"], **how)
        assert generate(model, tokenizer, ["def def ", "x"], draft=model, **how) == expected
        texts = ["", ""]
        for row, piece in stream(model, tokenizer, ["def def ", "x"], draft=Lookup(shortest=1), **how):
            texts[row] += piece
        assert texts == expected


def test_drafts_that_do_not_fit_are_refused():
    model = build(DECODERS["llama"]).eval()
    for draft, words in (
        (build(change(DECODERS["llama"], "embedding.vocab", 36)), "vocabulary has 36 tokens, and the model's 37"),
        (build(PAIRS["original"]), "must read the same inputs"),
        (build(change(DECODERS["llama"], "decoder.layer.attention.mask", {"kind": "bidirectional"})), "bidirectional"),
    ):
        with pytest.raises(InputError, match=words):
            generate(model, None, [1, 2], draft=draft)
    for name in LIMITED:
        with pytest.raises(InputError, match=r"read together, and this architecture then gives others: .*Leave the draft out"):
            generate(build(LIMITED[name]).eval(), None, [1, 2], draft=Lookup())
    with pytest.raises(InputError, match="one prompt is computed at a time"):
        generate(model, None, [[1], [2]], draft=Lookup(), batch=2)
    for bad in (lambda: Lookup(shortest=5), lambda: Lookup(tokens=0), lambda: Draft(model, tokens=0)):
        with pytest.raises(InputError, match="proposes"):
            bad()
