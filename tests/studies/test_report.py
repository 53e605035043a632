"""A study from its file to its report: real tiny runs, trained in this process."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest

import anyformer as af
from anyformer.describe import from_toml, to_toml
from anyformer.evaluation.intervals import Interval
from anyformer.studies import ArmTuning, Matching, Study, resolve_arms, running
from anyformer.studies.charts import dearer, front, pictures
from anyformer.studies.comparing import report
from anyformer.studies.findings import findings, mean_curve
from anyformer.studies.outcome import TrialOutcome
from anyformer.studies.page import page
from anyformer.studies.process import run
from anyformer.studies.runner import Runner
from anyformer.studies.trials import stage
from anyformer.studies.words import markdown, verdict


class Done:
    """A process that has ended."""

    def __init__(self, code):
        self.code = code

    def poll(self):
        return self.code


@pytest.fixture(scope="module")
def here():
    """Trials are trained in this process: another would import torch for seconds."""
    with pytest.MonkeyPatch.context() as patch:

        def launch(directory, threads, output):
            return Done(run(directory))

        patch.setattr(running, "Runner", partial(Runner, launch=launch, pause=0.0))
        yield


@pytest.fixture(scope="module")
def compared(study, here, tmp_path_factory):
    """A tuned study of two arms: where it lies, and its findings."""
    small = study.but(
        arms={"one_head": study.arms["one_head"]},
        base=study.base.but(steps=3),
        seeds=(1, 2),
        match=Matching(by=("params",), multiple=1),
        tuning=ArmTuning(values=(3e-3, 6e-3), widen=0),
        lengths=(16, 64),
        title="one key head & <two>?",
    )
    place = tmp_path_factory.mktemp("studies") / "out"
    return place, af.compare(small, place)


def test_what_is_found(compared):
    _, found = compared
    base, arm = found.arms
    assert found.comparisons[0].seeds == (1, 2)
    assert found.comparisons[0].differences == tuple(arm.numbers[seed] - base.numbers[seed] for seed in (1, 2))
    assert arm.differences == (("decoder.layer.attention.kv_heads", "2", "1"),)
    assert abs(arm.costs.parameters / base.costs.parameters - 1) <= 0.005
    assert arm.costs.state_bytes_per_token == base.costs.state_bytes_per_token / 2
    assert found.paired
    assert len(found.commands) == len(found.runs) == 8
    assert any("an end of the grid" in note for note in found.notes)


def test_the_directory_holds_the_answer(compared):
    place, found = compared
    names = {path.name for path in place.iterdir()}
    assert {"study.toml", "report.json", "report.md", "report.html", "differences.svg", "sensitivity.svg"} <= names
    stored = json.loads((place / "report.json").read_text())
    assert stored["comparisons"][0]["verdict"] == found.comparisons[0].verdict
    assert stored["arms"][1]["numbers"]["2"] == found.arms[1].numbers[2]
    assert from_toml(Study, (place / "study.toml").read_text()).title == found.question


def test_a_trial_is_repeated_by_its_command_to_the_same_number(compared, call, tmp_path):
    place, found = compared
    name = next(name for name in found.commands if name.startswith("one_head") and "seed2" in name)
    words = found.commands[name].split()[2:]
    made = call(*words[:-1], str(tmp_path / "again"), cwd=place)
    assert made.returncode == 0, made.stderr
    rows = [json.loads(line) for line in (tmp_path / "again" / "metrics.jsonl").read_text().splitlines()]
    assert next(row["loss"] for row in rows if row.get("last")) == found.arm["one_head"].numbers[2]


def test_other_lengths_are_asked_of_what_is_compared(compared):
    place, found = compared
    assert [each.length for each in found.lengths] == [16, 64]
    for each in found.lengths:
        (between,) = each.comparisons
        assert between.differences == tuple(each.numbers["one_head"][seed] - each.numbers["base"][seed] for seed in (1, 2))
        assert each.numbers["base"] != found.arm["base"].numbers
    asked = sorted(path.parent.name for path in place.glob("trials/*/lengths.json"))
    assert len(asked) == 4
    assert all("seed0" not in name for name in asked)
    words = "\n".join(markdown(found, {}))
    assert "length 32 (trained)" in words
    assert "At length 64, beside base: **cannot tell**: one_head" in words
    assert (place / "lengths.svg").is_file()


def test_the_answer_comes_first_in_words(compared):
    _, found = compared
    lines = list(markdown(found, {}))
    assert lines[0] == "# one key head & <two>?\n"
    assert lines[1].startswith("- **one_head")
    assert "params within 0.5%" in "".join(lines)


def test_an_unmatched_study_says_so_in_its_title(compared, study):
    _, found = compared
    assert "not matched" not in found.title
    ran = running.Ran(study, None, (), None, {})
    from anyformer.studies.findings import titled

    assert titled(ran) == "one key head? (sizes not matched)"


def judged(found, **changes):
    return verdict(replace(found.comparisons[0], **{"untrained": (), **changes}), found)


def test_verdicts_in_words(compared):
    _, found = compared
    some = {"differences": (0.1, 0.2, 0.1), "interval": Interval(0.1, 0.05, 0.15), "why": "p = 0.01"}
    assert judged(found, verdict="worse", **some) == (
        "**one_head is worse** than base: loss +0.1000 (95% interval +0.0500 to +0.1500); p = 0.01."
    )
    unsure = judged(found, verdict="cannot tell", needed=12, **some)
    assert "cannot tell with this budget" in unsure
    assert "about 12 seeds would tell (there were 2)" in unsure
    assert "more than 1,000 seeds" in judged(found, verdict="cannot tell", needed=None, **some)
    lost = judged(found, verdict="cannot tell", needed=None, untrained=("one_head",), **some)
    assert lost == "**one_head: cannot tell**, since p = 0.01; beside base: loss +0.1000 (95% interval +0.0500 to +0.1500)."
    assert "seeds would tell" not in lost


def test_arms_above_what_reads_nothing_get_no_verdict(compared):
    """Three updates: both end above the frequencies of bytes, which the report says with both numbers."""
    _, found = compared
    (known,) = set(found.unread.values())
    assert {arm.learnt for arm in found.arms} == {0.0}
    assert all(arm.quality.value > known.loss for arm in found.arms)
    for each in (*found.comparisons, *(one for at in found.lengths for one in at.comparisons)):
        assert (each.verdict, each.untrained, each.needed) == ("cannot tell", ("one_head", "base"), None)
        assert f"and {known.said} reach {known.loss:.4f}" in each.why
    words = "\n".join(markdown(found, {}))
    assert "- **Trained**: no verdict on an arm that learnt less than 5%" in words
    assert "one_head 0%" in words


class Reader(HTMLParser):
    """What a browser would ask of the network, and how elements nest."""

    VOID = ("meta", "link", "br", "input")

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.asked, self.heads = [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        self.asked += [values[name] for name in ("src", "href", "xlink:href") if name in values]
        if re.fullmatch("h[1-6]", tag):
            self.heads.append(int(tag[1]))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_one_file_that_reads_well(compared):
    _, found = compared
    text = page(found)
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    links = [asked for asked in reader.asked if asked.startswith("#")]
    assert [asked for asked in reader.asked if asked not in links] == ["data:,"]
    assert {link[1:] for link in links} <= set(reader.ids)
    assert reader.heads[0] == 1
    assert all(later <= earlier + 1 for earlier, later in zip(reader.heads, reader.heads[1:], strict=False))
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "one key head &amp; &lt;two&gt;?" in text
    assert text.index("one_head") < text.index("<svg")
    for word in ("prefers-color-scheme: dark", "@media print", "viewport", 'lang="en"', "color-scheme: light dark"):
        assert word in text
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        tree = ElementTree.fromstring(svg)
        assert tree.get("aria-label")
        assert not tree.get("width")
    # Every colour follows the theme.
    assert not re.search(r"(?:fill|stroke): #(?!fff)", "".join(re.findall(r"<svg.*?</svg>", text, re.S)))


def test_pictures_are_only_of_what_there_is(compared):
    _, found = compared
    assert set(pictures(found)) == {"differences", "curves", "pareto", "sensitivity", "lengths"}
    assert "lengths" not in pictures(replace(found, lengths=()))
    assert "sensitivity" not in pictures(replace(found, arms=tuple(replace(arm, tuned=None) for arm in found.arms)))
    assert "decode state, bytes per token" in dearer(found)
    assert "parameters" not in dearer(found)


def test_a_study_of_which_everything_diverged_has_a_report(compared, tmp_path):
    _, found = compared
    lost = replace(
        found.arms[1], quality=None, numbers=dict.fromkeys((1, 2)), diverged=dict.fromkeys((1, 2), "at step 2"),
        largest_gradient=None, curves={}, training={},
    )  # fmt: skip
    nothing = replace(
        found.comparisons[0],
        differences=(),
        seeds=(),
        interval=None,
        diverged=(2, 0),
        verdict="worse",
        why="diverged",
        untrained=(),
    )
    report(replace(found, arms=(found.arms[0], lost), comparisons=(nothing,)), tmp_path)
    assert "2 of 2" in (tmp_path / "report.md").read_text()
    assert "<strong>one_head is worse</strong>" in (tmp_path / "report.html").read_text()


def test_the_front():
    assert front([(1, 5), (2, 4), (3, 4.5), (2, 4)]) == [0, 1, 3]
    assert front([(1, 5), (1, 4), (2, 4)]) == [1]


def test_bands_are_over_all_seeds():
    assert mean_curve({1: [(10, 1.0), (20, 2.0)], 2: [(10, 3.0), (30, 1.0)]}) == [(10, 2.0, 1.0, 3.0)]


def test_the_command(study, place, here, call, monkeypatch):
    """A dry run trains nothing; then the study, and the same again trains nothing."""
    one = study.but(arms={"one_head": study.arms["one_head"]}, seeds=(1,), base=study.base.but(steps=2))
    (place / "heads.toml").write_text(to_toml(one))
    monkeypatch.setattr("anyformer.studies.comparing.this_machine", lambda threads: af.costs.hardware_of("h100"))
    dry = call("compare", "heads.toml", "--dry-run", cwd=place)
    assert dry.returncode == 0, dry.stderr
    assert "2 trials" in dry.stdout
    assert not (place / "runs").exists()
    first = call("compare", "heads.toml", cwd=place)
    assert first.returncode == 0, first.stderr
    assert "one_head: cannot tell, since one_head did not train: its loss is" in " ".join(first.stdout.split())
    assert "2 of 2" in first.stderr
    again = call("compare", "heads.toml", "--jobs", "1", cwd=place)
    assert "2 trials were there already" in again.stderr
    assert again.stdout == first.stdout[first.stdout.index("one key head?") :]


def test_the_command_refuses_before_any_work(place, call):
    (place / "study.toml").write_text('base = "run.toml"\nbugdet = "tokens"\n[arms.a]\nset = ["batch=2"]\n')
    refused = call("compare", "study.toml", cwd=place)
    assert refused.returncode == 2
    assert "did you mean 'budget'" in refused.stderr
    assert call("compare", "nothing.toml", cwd=place).returncode == 2
    (place / "full").mkdir()
    (place / "full" / "x").write_text("")
    (place / "study.toml").write_text('base = "run.toml"\n[arms.a]\nset = ["batch=2"]\n')
    assert "holds other files" in call("compare", "study.toml", "--out", "full", cwd=place).stderr


def test_an_arm_that_diverged_at_every_value_is_counted_so(study):
    """It has no final trials, and diverges with every seed for the verdict and the table alike."""
    tuned = study.but(arms={"gelu": study.arms["gelu"]}, tuning=ArmTuning(values=(3e-3, 6e-3), widen=0))
    arms = resolve_arms(tuned)
    good = TrialOutcome("finished", numbers={"loss": 3.0})
    outcomes: dict[str, TrialOutcome] = {}
    while due := [trial for trial in stage(tuned, arms, "cpu", outcomes).trials if trial.key not in outcomes]:
        outcomes |= {trial.key: good if trial.arm == "base" else TrialOutcome("diverged", "at step 2") for trial in due}
    ran = running.Ran(tuned, Path("nowhere"), arms, stage(tuned, arms, "cpu", outcomes), outcomes)
    found = findings(ran)
    assert found.comparisons[0].diverged == (3, 0)
    assert found.comparisons[0].verdict == "worse"
    assert list(found.arm["gelu"].diverged) == [1, 2, 3]
    assert any("diverged or failed at every value" in note for note in found.notes)
