"""Replaced tokens: what is hidden and drawn, the loss against plain loops, no gradient through the draw, the generator."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch

from anyformer.data import IGNORED
from anyformer.describe import DescriptionError, change, change_all, get
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.objectives import ReplacedTokensObjective, default_objective, loss_of
from anyformer.objectives.replaced_tokens import draw
from anyformer.parts import Causal, Head
from anyformer.parts.call.noise import Noise, uniform
from anyformer.plan import Plan
from anyformer.resizing.scaled import narrowed
from anyformer.resolving import architecture
from anyformer.training.evaluate import Evaluated, evaluate
from objectives.windows import batch, setting, small, whole

LENGTH, PLAN = 42, Plan(precision="fp32", compile="off")
ELECTRA = small("electra-small")


def generator_of(discriminator: Architecture, narrower: int = 4) -> Architecture:
    return ReplacedTokensObjective(narrower=narrower).generator_of(discriminator)


@pytest.fixture
def models():
    """A discriminator and a generator, in fp32 without dropout."""
    return build(ELECTRA, PLAN, seed=1).eval(), build(generator_of(ELECTRA), PLAN, seed=2).eval()


def examples_of(objective, rows=(0, 1, 2)):
    return objective.examples(whole(objective, LENGTH, list(rows)), setting(objective, LENGTH))


def test_the_same_share_of_each_row_is_hidden_and_no_special_token():
    objective = ReplacedTokensObjective()
    here = setting(objective, LENGTH)
    examples = objective.examples(batch([40, 13, 0], 40), here)
    hidden = examples.targets != IGNORED
    assert hidden.sum(1).tolist() == [6, 2, 0], "round(0.15 * 40), round(0.15 * 13), none"
    assert (examples.tokens[hidden] == here.tokenizer.special("mask")).all()
    assert not set(examples.targets[hidden].tolist()) & set(here.tokenizer.special_tokens.values())
    assert examples.counts.tolist() == [42, 15, 0], "all but padding counts, [CLS] and [SEP] too"
    for row, (count, each) in enumerate([(6, 42), (2, 15)]):
        assert examples.weights[row][hidden[row]].tolist() == pytest.approx([each / count] * count)
    assert (examples.weights[~hidden] == 0).all()


def test_some_hidden_tokens_may_stay_visible():
    objective = ReplacedTokensObjective(masked=0.85)
    here = setting(objective, LENGTH)
    examples = objective.examples(whole(objective, LENGTH, list(range(200))), here)
    hidden = examples.targets != IGNORED
    shown = examples.tokens[hidden] == examples.targets[hidden]
    assert shown.float().mean().item() == pytest.approx(0.15, abs=0.03)
    assert (examples.tokens[hidden][~shown] == here.tokenizer.special("mask")).all()


def test_the_loss_is_that_of_plain_loops(models):
    """Generator and discriminator a token at a time; drawn by the largest of logit + Gumbel noise of the same counters."""
    objective = ReplacedTokensObjective(weight=7.0)
    model, generator = models
    examples = objective.examples(batch([40, 21], 40), setting(objective, LENGTH))
    noise = Noise.at(3, 5, examples.rows)
    with torch.no_grad():
        found = loss_of(objective, model, examples, noise, partners={"generator": generator}) / examples.count
        guesses = generator(examples.tokens, padding=examples.padding)
        uniforms = uniform(noise.other(1), 0, torch.Size((2, 6, guesses.shape[-1])))
        filled, original = examples.tokens.clone(), examples.tokens.clone()
        nll = 0.0
        for row in range(2):
            places = [place for place, target in enumerate(examples.targets[row].tolist()) if target != IGNORED]
            each = [-math.log(guesses[row, p].softmax(-1)[examples.targets[row, p]].item()) for p in places]
            nll += float(examples.counts[row]) * sum(each) / len(each)
            for number, place in enumerate(places):
                original[row, place] = examples.targets[row, place]
                gumbel = [-math.log(-math.log(u)) for u in uniforms[row, number].tolist()]
                scores = [logit + g for logit, g in zip(guesses[row, place].tolist(), gumbel, strict=True)]
                filled[row, place] = scores.index(max(scores))
        said = model(filled, padding=examples.padding)
        detection = 0.0
        for row, place in (~examples.padding).nonzero().tolist():
            share = 1 / (1 + math.exp(-said[row, place, 0].item()))
            detection -= math.log(share if filled[row, place] != original[row, place] else 1 - share)
        statistics = objective.statistics(model, examples, None, {"generator": generator})
    assert (filled != original).any()
    assert found.item() == pytest.approx((nll + 7.0 * detection) / examples.count, rel=1e-5)
    assert statistics["tokens"] == int((~examples.padding).sum()) == examples.count


def test_with_rows_of_one_length_both_losses_are_means(models):
    objective = ReplacedTokensObjective(weight=50.0)
    model, generator = models
    examples = examples_of(objective)
    with torch.no_grad():
        guess = objective.guess(model, generator, examples, None, None)
        total = loss_of(objective, model, examples, None, partners={"generator": generator}) / examples.count
        logits = generator(examples.tokens)
    hidden = examples.targets != IGNORED
    mlm = torch.nn.functional.cross_entropy(logits[hidden], examples.targets[hidden])
    bce = torch.nn.functional.binary_cross_entropy_with_logits(guess.logits, guess.replaced.float())
    torch.testing.assert_close(total.item(), (mlm + 50 * bce).item(), rtol=1e-5, atol=0)


def test_no_gradient_passes_through_the_draw(models):
    model, generator = models
    examples = examples_of(ReplacedTokensObjective())

    def gradients(weight: float) -> list[torch.Tensor]:
        objective = ReplacedTokensObjective(weight=weight)
        return torch.autograd.grad(
            loss_of(objective, model, examples, None, partners={"generator": generator}), list(generator.parameters())
        )

    for one, other in zip(gradients(1e-3), gradients(500.0), strict=True):
        torch.testing.assert_close(one, other)


def test_tokens_are_drawn_from_the_generators_softmax():
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5])
    rows = 20_000
    drawn = Counter(draw(logits.expand(rows, 1, 5), Noise.at(0, 0, torch.arange(rows)))[:, 0].tolist())
    for token, share in enumerate(logits.softmax(-1).tolist()):
        assert drawn[token] / rows == pytest.approx(share, abs=4 * math.sqrt(share / rows))


def test_a_token_drawn_right_is_not_replaced(models):
    """A generator that knows the text puts in what was there."""
    objective = ReplacedTokensObjective()
    model, generator = models
    examples = examples_of(objective)

    class Knowing(torch.nn.Module):
        def features(self, tokens, **options):
            return torch.nn.functional.one_hot(examples.targets.clamp(min=0), 288).float() * 1e4

        def logits(self, features):
            return features

    with torch.no_grad():
        statistics = objective.statistics(model, examples, None, {"generator": Knowing()})
    metrics = objective.metrics(statistics, {})
    assert statistics["replaced"] == 0
    assert metrics["generator_accuracy"] == 1
    assert metrics["generator_loss"] == pytest.approx(0, abs=1e-6)
    with torch.no_grad():
        statistics = objective.statistics(model, examples, None, {"generator": generator})
    assert 0 < statistics["replaced"] <= statistics["predicted"]


def test_metrics_count_every_token(models):
    objective = ReplacedTokensObjective()
    model, generator = models
    examples = objective.examples(batch([40, 21], 40), setting(objective, LENGTH))
    with torch.no_grad():
        guess = objective.guess(model, generator, examples, None, None)
        found = objective.metrics(objective.statistics(model, examples, None, {"generator": generator}), {})
    said, real, replaced = guess.logits > 0, guess.real, guess.replaced
    assert found["accuracy"] == pytest.approx((said == replaced)[real].float().mean().item())
    assert found["recall"] == pytest.approx(said[replaced].float().mean().item())
    assert real.sum() == 42 + 23
    assert found["replaced"] == pytest.approx(replaced.sum().item() / 65)
    with torch.no_grad():
        once, again = (objective.statistics(model, examples, None, {"generator": generator}) for _ in range(2))
    assert once["loss"] == again["loss"], "an evaluation draws the same tokens each time"


def test_nothing_is_dropped_from_any_model_while_it_is_evaluated():
    """As numbers of two evaluations, or of one with models that train and one with models that do not, would show."""
    objective = ReplacedTokensObjective()
    dropping = change_all(ELECTRA, {"encoder.dropout": 0.3})
    model, generator = build(dropping, PLAN, seed=1), build(generator_of(dropping), PLAN, seed=2)
    examples = examples_of(objective)

    class Given:
        unit, each, whole, bytes_each = "tokens", LENGTH, 3 * LENGTH, None

        def once(self, most: int):
            yield examples

        def rows_of(self, most: int) -> int:
            return len(examples.rows)

    def evaluated(*, training: bool) -> Evaluated:
        for one in (model, generator):
            one.train(training)
        found = evaluate(model, objective, Given(), PLAN, partners={"generator": generator})
        assert model.training == generator.training == training
        return found

    assert evaluated(training=True) == evaluated(training=True) == evaluated(training=False)


def test_the_generator_is_a_narrow_masked_model_with_embeddings_of_full_width():
    """Of ELECTRA-base it is google/electra-base-generator: 256 wide, 4 heads, 1,024, embeddings of 768."""
    own = architecture("electra-base")
    made = generator_of(own, narrower=3)
    assert (made.width, made.embedding_width, made.encoder.depth, made.outputs) == (256, 768, 12, own.embedding.symbols)
    assert get(made, "encoder.layer.attention.heads") == 4
    assert get(made, "encoder.layer.feedforward.width") == 1024
    assert made.head.tied
    assert made.head.transform.norm is not None
    narrow = generator_of(architecture("electra-small"))
    assert (narrow.width, narrow.embedding_width, get(narrow, "encoder.layer.attention.heads")) == (64, 128, 1)
    assert default_objective(own).kind == default_objective(ELECTRA).kind == "replaced_tokens"


def test_heads_of_keys_become_fewer_as_those_of_queries_do():
    small = narrowed(architecture("llama-3-70b"), 4)
    assert (get(small, "decoder.layer.attention.heads"), get(small, "decoder.layer.attention.kv_heads")) == (16, 2)
    assert get(narrowed(architecture("llama-3-70b"), 16), "decoder.layer.attention.kv_heads") == 1


def test_the_baseline_knows_frequencies_alone():
    """Of the hidden tokens in training 3 are a's and 1 is a b; half of the 8 held-out positions are hidden, 2 of each."""
    objective = ReplacedTokensObjective()
    examples = examples_of(objective, [0])

    class Given:
        def __init__(self, targets: list[int], count: float) -> None:
            padded = torch.tensor([targets + [IGNORED] * (42 - len(targets))])
            self.examples = replace(
                examples, targets=padded, weights=torch.ones(1, 42), counts=torch.tensor([count], dtype=torch.float64)
            )

        def at(self, step: int):
            return self.examples

        def once(self, most: int):
            yield self.examples

    what, loss = objective.baseline(Given([0, 0, 0, 1], 8.0), 1, Given([0, 0, 1, 1], 8.0), 1, 1)
    a, b = 4 / 6, 2 / 6
    replaced = 0.5 * (1 - (a + b) / 2)
    entropy = -replaced * math.log(replaced) - (1 - replaced) * math.log(1 - replaced)
    assert loss == pytest.approx(-(math.log(a) + math.log(b)) / 2 + 50 * entropy)
    assert "frequencies" in what


def test_what_cannot_be_trained_so_is_refused():
    objective = ReplacedTokensObjective()
    with pytest.raises(ValueError, match=r"set head = \{outputs = 1\} without a pool"):
        objective.check(small("bert-base-uncased"))
    with pytest.raises(ValueError, match="without a pool"):
        objective.check(ELECTRA.but(head=Head(outputs=1, pool="first")))
    causal = change(ELECTRA, "encoder.layer.attention.mask", Causal())
    with pytest.raises(ValueError, match="a token sees only earlier ones"):
        objective.check(causal)
    other = change_all(generator_of(ELECTRA), {"embedding.vocab": 300})
    with pytest.raises(ValueError, match=r"objective.generator: its tokens are .*300"):
        objective.but(generator=other).check(ELECTRA)
    with pytest.raises(ValueError, match=r"objective.generator: .*predicts tokens"):
        objective.but(generator=ELECTRA).check(ELECTRA)
    with pytest.raises(ValueError, match=r"longer than the position table of objective.generator"):
        objective.but(generator=generator_of(ELECTRA)).sizes.check(1000, 1, 1)
    with pytest.raises(ValueError, match=r"no generator follows .*set objective.generator"):
        # Five features in one head: no pairs to rotate.
        generator_of(
            change_all(ELECTRA, {"width": 20, "encoder.layer.attention.heads": 2, "encoder.layer.attention.rotary": {}})
        )


def test_no_more_than_all_are_masked():
    with pytest.raises(DescriptionError, match="masked"):
        ReplacedTokensObjective(masked=1.5)
