"""`anyformer new` writes plug-ins that keep every contract as they are, and writes nothing where it refuses."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.testing.unloading import forgetting

import anyformer
from anyformer.parts import Attention, Experts, Router
from anyformer.starting_points import THINGS, Spellings, plugin, writing
from anyformer.testing import contracts
from anyformer.testing.around import decoder_of
from anyformer.testing.plugin import promises
from forking import forked

ALONE = [thing for thing in THINGS.values() if thing.alone]
PARTS = ("norm", "mask", "adjust", "place", "term", "weigh", "combine", "choice", "sublayer")
TRAINED = ("loss_falls", "killed_and_resumed")
"""Contracts that train for seconds: of each thing by itself in the slow tests."""


TELL = ("its_twin", "its_solution", "its_reference", "are_the_parameters", "the_predicate", "lies_beyond")
"""Words in the names of contracts that compare with something written a second time."""


def kept(promise) -> bool:
    try:
        promise.holds()
    except Exception:
        return False
    return True


def words(name: str) -> list[str]:
    """Of the command that writes one of a thing."""
    return ["new", "part", f"{name}_of_mine", "--kind", name] if name in PARTS else ["new", name, f"{name}_of_mine"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, call) -> Path:
    """A plug-in of each thing, as the command writes it."""
    place = tmp_path_factory.mktemp("new")
    for thing in ALONE:
        said = call(*words(thing.name), cwd=place)
        assert said.returncode == 0, said.stderr
        assert said.stdout.startswith(f"{Spellings.of(f'{thing.name}_of_mine', thing.suffix).camel}, {thing.what}:\n")
        assert f"  wrote {thing.name}_of_mine.py\n  wrote test_{thing.name}_of_mine.py\nNext:\n" in said.stdout
        assert said.stdout.count("\n") == 7
    return place


@pytest.fixture(autouse=True)
def _forgetting():
    with forgetting():
        yield


def test_parts_keep_the_contracts_in_one_model(folder):
    made = {name: anyformer.load_plugin(folder / f"{name}_of_mine.py").CHECKS for name in (*PARTS, "mixer")}
    part = {name: checks.examples[0] for name, checks in made.items()}
    slots = {slot: part[slot] for slot in ("mask", "weigh", "combine", "adjust", "place")}
    attention = Attention(heads=4, kv_heads=2).but(**slots, terms=part["term"])
    experts = Experts(experts=4, chosen=2, width=12, router=Router(choice=part["choice"]))
    architecture = decoder_of(part["mixer"], attention, experts, part["sublayer"], norm=part["norm"])
    contracts.check(architecture, {**made["mixer"].twins, **made["sublayer"].twins})


@pytest.mark.parametrize("name", ["objective", "optimiser", "task", "reward", "family"])
def test_the_rest_keep_their_own(name, folder):
    module = anyformer.load_plugin(folder / f"{name}_of_mine.py")
    quick = [promise for promise in promises(module) if not promise.what.startswith(TRAINED)]
    assert len(quick) >= 2
    for promise in quick:
        assert promise.holds is not None, promise.missing
        promise.holds()


def test_a_mistake_in_one_is_found(folder, tmp_path):
    """What is written is held to something: the twin, the solution, the reference and the update tell."""
    for name, right, wrong in (
        ("mixer", "(1 - keep[:, t]) * value[:, t]", "value[:, t]"),
        ("combine", "torch.empty(sizes.mixed[0])", "torch.empty(sizes.mixed[0], 1)"),
        ("mask", "query + 1, keys", "query, keys"),
        ("mask", "return self.count * self.stride", "return self.count"),
        ("task", "letters[:, order]", "letters[:, ::-1]"),
        ("family", "Window(size=span)", "Window(size=span + 1)"),
        ("optimiser", ".add_(gradient)", ".sub_(gradient)"),
        ("objective", "return loss - self.confidence", "return loss + self.confidence"),
    ):
        code = (folder / f"{name}_of_mine.py").read_text()
        assert code.count(right) == 1
        (tmp_path / f"{name}_of_mine.py").write_text(code.replace(right, wrong))
        with forgetting():
            module = anyformer.load_plugin(tmp_path / f"{name}_of_mine.py")
            compared = [each for each in promises(module) if any(word in each.what for word in TELL)]
            assert [each.what for each in compared if not kept(each)], name


def test_its_test_is_one_of_each_contract(folder):
    said = forked(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_task_of_mine.py")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "10 passed" in said.stdout


@pytest.mark.parametrize("thing", [each for each in ALONE if each.use.startswith("anyformer show")], ids=lambda each: each.name)
def test_the_third_command_uses_it(thing, folder, call):
    said = call(*shlex.split(thing.use.format(snake=f"{thing.name}_of_mine"))[1:], cwd=folder)
    assert said.returncode == 0, said.stderr


@pytest.mark.slow
@pytest.mark.parametrize("thing", ALONE, ids=lambda each: each.name)
def test_each_is_green_at_once(thing, folder, call):
    said = call("check", f"{thing.name}_of_mine.py", cwd=folder)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "not compared" not in said.stdout
    if thing.use.startswith("anyformer train"):
        with forgetting():
            said = call(*shlex.split(thing.use.format(snake=f"{thing.name}_of_mine"))[1:], cwd=folder)
        assert said.returncode == 0, said.stdout + said.stderr


def test_they_are_in_the_style_of_the_house(folder):
    root = Path(__file__).parents[2]
    for check in (["check"], ["format", "--diff"]):
        words = [sys.executable, "-m", "ruff", *check, "--config", str(root / "pyproject.toml"), str(folder)]
        said = subprocess.run(words, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.parametrize(
    ("given", "suffix", "snake", "camel"),
    [
        ("GatedAverage", "", "gated_average", "GatedAverage"),
        ("gated_average", "", "gated_average", "GatedAverage"),
        ("PartialRMSNorm", "", "partial_rms_norm", "PartialRMSNorm"),
        ("RWKV8", "", "rwkv8", "RWKV8"),
        ("mamba4", "", "mamba4", "Mamba4"),
        ("LateObjective", "Objective", "late", "LateObjective"),
        ("late_objective", "Objective", "late", "LateObjective"),
        ("late", "Objective", "late", "LateObjective"),
        ("Objective", "Objective", "objective", "ObjectiveObjective"),
    ],
)
def test_a_name_in_its_spellings(given, suffix, snake, camel):
    assert Spellings.of(given, suffix) == Spellings(snake, camel)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("mixer 2fast", "'2fast' is no name of a class"),
        ("mixer my-mixer", "'my-mixer' is no name of a class"),
        ("mixer ../mine", "is no name of a class"),
        ("mixer Sum", "is a word of Python's own"),
        ("mixer Tally", "Tally is the name of something that the file imports"),
        ("mixer Class", "is a word of Python's own"),
        ("mixer mamba", "'mamba' is taken"),
        ("part RMSNorm --kind norm", "'rms_norm' is taken"),
        ("part gate --kind combine", "'gate' is taken"),
        ("part heads --kind combine", "'heads' is taken"),
        ("objective CausalObjective", "'causal' is taken"),
        ("optimiser lion", "'lion' is taken"),
        ("family llama", "'llama' is taken"),
        ("task json", "a module called 'json' is there already"),
        ("task torch", "a module called 'torch' is there already"),
        ("task there", "there.py is there already"),
        ("task half", "test_half.py is there already"),
        ("part mine", "say which kind of part with --kind, one of norm, mask"),
        ("task mine --kind norm", "only a part has several"),
        ("part mine --kind activation", "add --package"),
        ("family mine --package", "is started as a plug-in alone"),
    ],
)
def test_refusals_write_nothing(words, told, tmp_path, call):
    for name in ("there.py", "test_half.py"):
        (tmp_path / name).write_text("mine")
    said = call(*shlex.split(f"new {words}"), cwd=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert told in said.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"there.py": "mine", "test_half.py": "mine"}


def test_all_files_are_written_or_none(tmp_path, monkeypatch):
    whole = writing.write_text

    def fails_at_the_second(path, text):
        if path.name.startswith("test_"):
            raise OSError("full")
        whole(path, text)

    monkeypatch.setattr(writing, "write_text", fails_at_the_second)
    with pytest.raises(OSError, match="full"):
        plugin(THINGS["task"], Spellings.of("halved"), tmp_path).write()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_changed_has_its_text_again_where_another_cannot_be_written(tmp_path, monkeypatch):
    whole = writing.write_text
    (tmp_path / "first").write_text("before")
    (tmp_path / "second").write_text("before")

    def fails_once(path, text):
        if (path.name, text) == ("second", "after"):
            raise OSError("full")
        whole(path, text)

    monkeypatch.setattr(writing, "write_text", fails_once)
    with pytest.raises(OSError, match="full"):
        writing.NewFiles(tmp_path, {"new": "after"}, {"first": "after", "second": "after"}).write()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"first": "before", "second": "before"}


def test_every_template_is_that_of_a_thing():
    templates = {path.stem for path in Path(writing.__file__).parent.glob("*.jinja")}
    assert templates == {*THINGS, "test"}
