"""A study as a value: text both ways, change by path, errors that say where and what to do; and its arms, matched."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.costs import UnmatchedError, budget_of
from anyformer.costs.staircase import stairs
from anyformer.describe import DescriptionError, change, diff, from_json, from_toml, to_json, to_toml
from anyformer.studies import Arm, ArmTuning, Matching, Staircase, Study, load_study, resolve_arms
from anyformer.training.priced import flops_of


def test_text_both_ways(study):
    full = study.but(match=Matching(by=("params",)), tuning=ArmTuning(values=(1e-3, 3e-3, 1)))
    assert from_toml(Study, to_toml(full)) == full
    assert from_json(Study, to_json(full)) == full
    assert hash(from_toml(Study, to_toml(full))) == hash(full)
    assert to_toml(from_toml(Study, to_toml(full))) == to_toml(full)


def test_change_by_path(study):
    made = change(study, "base.steps", 9)
    assert made.base.steps == 9
    assert diff(study, made) == [("base.steps", 6, 9)]
    assert change(study, "arms.gelu.set", ["batch=2"]).arms["gelu"].applied(study.base).batch == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arms": {}}, "nothing to compare: add arms or a staircase"),
        ({"arms": {"a": Arm(set=("decoder.layer.atention.heads=1",))}}, r"arms\.a: .*'atention'.*did you mean 'attention'"),
        ({"arms": {"a": Arm(set=("seed=3",))}}, r"arms\.a: seed is decided by the study, for all arms alike: set seeds"),
        ({"arms": {"base": Arm(set=("batch=2",))}}, "the base has this name"),
        ({"seeds": (1, 1)}, "holds one twice"),
        ({"match": {"by": ("parms",)}}, "did you mean 'params'"),
        ({"tuning": ArmTuning(values=(1e-3, 2e-3), seeds=(0, 2))}, r"tuning\.seeds: 2 is one of seeds"),
        ({"tuning": ArmTuning(values=(1e-3, 2e-3), seeds=(0, 0))}, r"tuning\.seeds: \[0, 0\] holds one twice"),
        ({"tuning": ArmTuning(path="optimiser.rate", values=(1e-3, 2e-3))}, r"tuning: .*'rate'"),
        ({"tuning": ArmTuning(path="batch", values=(1, 2))}, r"tuning\.path: batch changes what is equal for all arms"),
        ({"tuning": ArmTuning(path="optimiser.betas", values=(1, 2))}, r"tuning: optimiser\.betas"),
        ({"tuning": {"values": (2e-3, 1e-3)}}, "rising order"),
        ({"titel": "x"}, "did you mean 'title'"),
    ],
)
def test_what_is_wrong_is_said(study, changes, said):
    with pytest.raises(DescriptionError, match=said):
        Study(**{**dict(study), **changes})


def test_minutes_are_refused(study):
    with pytest.raises(DescriptionError, match=r"base\.minutes: .*set base\.steps"):
        study.but(base=study.base.but(steps=None, minutes=1.0))


def test_an_arm_with_its_own_grid_is_tried_equally_often(study):
    grid = ArmTuning(values=(1e-3, 2e-3, 4e-3))
    with pytest.raises(DescriptionError, match=r"arms\.a: values: has 2 values and tuning\.values 3"):
        study.but(tuning=grid, arms={"a": Arm(values=(0.1, 0.2))})
    own = study.but(tuning=grid, arms={"a": Arm(set=('optimiser={kind="sgd"}',), values=(0.1, 0.2, 0.4))})
    assert own.grid("a") == (0.1, 0.2, 0.4)
    assert own.grid("base") == grid.values


FILE = """
base = "run.toml"
match = "params"
seeds = [1, 2]

[tuning]
values = [1e-3, 2e-3]

[arms.one_head]
set = ["decoder.layer.attention.kv_heads=1"]

[arms.other]
architecture = "llama-12m"
set = ["embedding.vocab=257", "architecture.width=48"]
"""


def test_names_and_paths_of_a_file_are_looked_up(place):
    (place / "which-heads.toml").write_text(FILE)
    found = load_study(place / "which-heads.toml", {"base.steps": 7})
    assert (found.title, found.base.steps, found.match) == ("which heads", 7, Matching(by=("params",)))
    assert found.arms["other"].architecture == load_study(place / "which-heads.toml").arms["other"].architecture
    assert from_toml(Study, to_toml(found)) == found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"run.toml"', '"runs.toml"', "there is no file 'runs.toml' beside this one; did you mean 'run.toml'"),
        ('"llama-12m"', '"lama-12m"', "did you mean 'llama-12m'"),
        ("[tuning]", "[tunning]", "did you mean 'tuning'"),
        ('match = "params"', 'match = "prams"', "did you mean 'params'"),
    ],
)
def test_misspelt_files_are_refused(place, old, new, said):
    (place / "study.toml").write_text(FILE.replace(old, new))
    with pytest.raises(DescriptionError, match=said):
        load_study(place / "study.toml")


def test_arms_are_matched_to_the_base(study):
    matched = study.but(match=Matching(by=("params",), multiple=1))
    base, *arms = resolve_arms(matched)
    cost = budget_of(base.run.architecture, length=base.run.length).parameters
    for arm in arms:
        assert abs(budget_of(arm.run.architecture, length=base.run.length).parameters / cost - 1) <= 0.005
    moved = {arm.name: arm.moved for arm in arms}
    assert moved["gelu"].before == moved["gelu"].after  # it had as many already
    assert moved["one_head"].after.ffn > 48
    assert "ffn 48 ->" in str(moved["one_head"])
    assert moved["one_head"].costs["params"][0] == cost


def test_what_cannot_be_matched_is_refused_with_its_arm(study):
    with pytest.raises(UnmatchedError, match=r"arms\.one_head: .*match\.multiple"):
        resolve_arms(study.but(match=Matching(by=("params",), multiple=64)))


def test_budgets_are_equal(study):
    wide = study.but(arms={"short": Arm(set=("batch=2",)), "wide": Arm(set=("decoder.layer.feedforward.width=96",))})
    assert [arm.run.steps for arm in resolve_arms(wide)] == [6, 12, 6]
    many = wide.but(base=wide.base.but(steps=600), budget="flops")
    flops = [arm.flops for arm in resolve_arms(many)]
    assert max(flops) / min(flops) < 1.005
    assert resolve_arms(many)[2].run.steps < 600
    assert flops[0] == 600 * flops_of(many.base)


def test_other_targets_are_known(study):
    said = {arm.name: arm.other_targets for arm in resolve_arms(study.but(arms={"a": Arm(set=("data.validation=0.2",))}))}
    assert said == {"base": (), "a": ("data.validation",)}


def test_a_staircase_goes_from_one_architecture_to_the_other():
    start = llama(width=32, depth=2, heads=4, kv_heads=4, ffn=48, vocab=257, tied=True)
    to = change(change(start, "decoder.layer.attention.kv_heads", 1), "decoder.layer.feedforward.activation", "gelu")
    to = change(to, "width", 64)
    found = stairs(start, to)
    assert list(found) == [
        "plus_1_model_width", "plus_2_attention_kv_heads", "plus_3_feedforward_activation", "without_model_width",
        "without_attention_kv_heads",
    ]  # fmt: skip
    assert found["plus_3_feedforward_activation"] == to
    assert diff(start, found["plus_1_model_width"]) == [("width", 32, 64)]
    assert diff(to, found["without_attention_kv_heads"]) == [("decoder.layer.attention.kv_heads", 1, 4)]


def test_changes_that_are_valid_only_together_are_one_step():
    start = llama(width=32, depth=2, heads=4, kv_heads=4, ffn=48, vocab=257, tied=True)
    to = llama(width=36, depth=2, heads=6, kv_heads=6, ffn=48, vocab=257, tied=True)
    found = stairs(start, to)
    assert list(found.values())[-1] == to or to in found.values()
    assert all(name.startswith(("plus_", "without_")) for name in found)


def test_norms_of_all_places_are_one_change():
    start = llama(width=32, depth=2, heads=4, kv_heads=4, ffn=48, vocab=257, tied=True)
    to = llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=257, tied=True, eps=1e-6)
    assert list(stairs(start, to)) == ["plus_1_decoder_eps", "plus_2_attention_kv_heads", "without_decoder_eps"]


@pytest.mark.parametrize(
    ("start", "to"), [("gpt2", "llama-3-8b"), ("gpt2", "gemma-2-2b"), ("bert-base-cased", "t5-small"), ("gpt2", "mamba2-780m")]
)
def test_stairs_lead_from_any_architecture_to_any_other(start, to):
    """Also where two parts have a field of one name, or the stacks other variants."""
    found = stairs(architecture(start), architecture(to), without=False)
    assert [*found.values()][-1] == architecture(to)
    assert len({made.digest for made in found.values()}) == len(found)


def test_a_staircase_to_itself_is_refused(study):
    with pytest.raises(DescriptionError, match="nothing differs"):
        resolve_arms(study.but(staircase=Staircase(to=study.base.architecture)))
