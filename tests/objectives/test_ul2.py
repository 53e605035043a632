"""UL2's mixture: which denoiser a row gets, what it makes of it, and one sequence for prefix decoders."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from anyformer.data import IGNORED
from anyformer.model.transformer import build
from anyformer.objectives import Denoiser, SpanCorruptionObjective, UL2Objective
from anyformer.objectives.corruption import Texts
from anyformer.objectives.ul2 import PAPER, in_one_sequence
from anyformer.plan import Plan
from objectives.windows import setting, small, whole

LENGTH = 48
PLAN = Plan(precision="fp32", compile="off")


def text_of(row: torch.Tensor) -> list[int]:
    return [number for number in row.tolist() if number >= 0]


def test_one_denoiser_without_a_mode_is_span_corruption():
    alone, plain = UL2Objective(denoisers=(Denoiser(rate=0.15, span=3.0),)), SpanCorruptionObjective()
    assert alone.window(LENGTH) == plain.window(LENGTH)
    assert alone.special(LENGTH) == plain.special(LENGTH)
    examples = alone.examples(whole(plain, LENGTH, [0, 1, 2]), setting(alone, LENGTH))
    others = plain.examples(whole(plain, LENGTH, [0, 1, 2]), setting(plain, LENGTH))
    assert torch.equal(examples.tokens, others.tokens)
    assert torch.equal(examples.targets, others.targets)
    assert torch.equal(examples.decoder_tokens, others.decoder_tokens)
    assert not examples.padding.any()


def test_each_row_shows_the_rate_spans_and_mode_of_its_denoiser():
    objective, rows = UL2Objective(), list(range(40))
    here, window = setting(objective, LENGTH), objective.window(LENGTH)
    examples = objective.examples(whole(objective, LENGTH, rows), here)
    special = here.tokenizer.special_tokens
    drawn = objective.drawn(torch.tensor(rows), here.seed)
    assert len(set(drawn)) == len(PAPER)
    for row, denoiser in enumerate(drawn):
        source = examples.tokens[row][~examples.padding[row]].tolist()
        target = text_of(examples.targets[row])
        noise, spans = denoiser.spans(window)
        assert source[0] == special[{"regular": "[R]", "sequential": "[S]", "extreme": "[X]"}[denoiser.mode]]
        assert (len(source), len(target)) == denoiser.sizes(window) == (window - noise + spans + 2, noise + spans + 1)
        assert sum(number in special.values() for number in target) == spans + 1
        if denoiser.mode == "sequential":
            text = whole(objective, LENGTH, [row]).tokens[0].tolist()
            assert source[1:-2] + target[1:-1] == text, "the rest of the text follows from its beginning"
            assert noise == round(0.25 * window)


def test_denoisers_are_drawn_by_their_shares():
    objective = UL2Objective(denoisers=(Denoiser(rate=0.1, span=2.0, share=3.0), Denoiser(rate=0.5, share=1.0)))
    drawn = Counter(each.rate for each in objective.drawn(torch.arange(8000), 0))
    assert drawn[0.1] / 8000 == pytest.approx(0.75, abs=0.02)


def test_all_rows_fit_whatever_is_drawn():
    for target in ("decoder", "same_sequence"):
        objective = UL2Objective(target=target)
        for length in (16, 48, 256):
            window = objective.window(length)
            found = [each.sizes(window) for each in PAPER]
            room = [max(both) if target == "decoder" else sum(both) - 1 for both in found]
            more = [each.sizes(window + 1) for each in PAPER]
            assert max(room) <= length < max(max(both) if target == "decoder" else sum(both) - 1 for both in more)


def test_one_sequence_is_the_source_and_then_the_target():
    """The same text, mode and spans as for a model with two inputs; the last token of the prefix predicts the first target."""
    one, two = UL2Objective(target="same_sequence"), UL2Objective()
    here, rows = setting(one, LENGTH), [0, 1, 2, 3, 4]
    windows = whole(one, LENGTH, rows)
    joined = one.examples(windows, here)
    apart = two.examples(windows, here)
    for row in range(len(rows)):
        source, target = apart.tokens[row][~apart.padding[row]].tolist(), text_of(apart.targets[row])
        prefix = int(joined.prefix[row])
        assert joined.tokens[row][~joined.padding[row]].tolist() == [*source, *target][:LENGTH]
        assert prefix == len(source)
        assert joined.targets[row].tolist() == [IGNORED] * (prefix - 1) + target + [IGNORED] * (
            LENGTH + 1 - prefix - len(target)
        )


def test_token_0_of_a_target_is_learnt_like_others():
    padded = torch.tensor([[5, 0, -1]]), torch.tensor([[0, 7, 0, 9, -1]])
    examples = in_one_sequence(Texts(*padded), torch.arange(1), 8)
    assert examples.tokens.tolist() == [[5, 0, 0, 7, 0, 9, 0, 0]]
    assert examples.targets.tolist() == [[IGNORED, 0, 7, 0, 9, IGNORED, IGNORED, IGNORED]]


def test_a_prefix_decoder_sees_the_source_both_ways_and_no_target_early():
    objective = UL2Objective(target="same_sequence")
    model = build(small("prefix"), PLAN, seed=1).eval()
    examples = objective.examples(whole(objective, LENGTH, [0]), setting(objective, LENGTH))
    prefix = int(examples.prefix[0])

    def logits(place: int) -> torch.Tensor:
        tokens = examples.tokens.clone()
        tokens[0, place] = (tokens[0, place] + 1) % 256
        return model(tokens, padding=examples.padding, prefix=examples.prefix)

    with torch.no_grad():
        before = objective.logits(model, examples, None, None)
        late, inside = logits(prefix + 2), logits(prefix - 1)
    assert torch.equal(late[0, : prefix + 2], before[0, : prefix + 2])
    assert (inside[0, 0] != before[0, 0]).any(), "the first token of the source sees its last"


def test_what_cannot_be_trained_so_is_refused():
    with pytest.raises(ValueError, match="choose an architecture with an encoder"):
        UL2Objective().check(small("prefix"))
    with pytest.raises(ValueError, match="gives the model one sequence"):
        UL2Objective(target="same_sequence").check(small("t5-small"))
    with pytest.raises(ValueError, match="needs attention that reads a prefix both ways"):
        UL2Objective(target="same_sequence").check(small("gpt2"))
    with pytest.raises(ValueError, match=r"length = 3 has no room .* at least 4 are needed"):
        UL2Objective().sizes.check(3, 1, 1)
    with pytest.raises(ValueError, match="at least 6 are needed"):
        UL2Objective(target="same_sequence").sizes.check(5, 1, 1)
    UL2Objective(target="same_sequence").sizes.check(6, 1, 1)
    with pytest.raises(ValueError, match="1 at least"):
        UL2Objective(denoisers=())
