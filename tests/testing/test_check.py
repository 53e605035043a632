"""`anyformer check`: the plug-in of docs/extend.md keeps every contract, and each mistake breaks the one that it should."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tests.testing.unloading import forgetting, page_code

from anyformer.describe import to_toml
from anyformer.parts import Head
from anyformer.resolving import architecture

CODE = page_code()
BY_ROWS = """
    def token_loss(self, logits, examples):
        return super().token_loss(logits, examples) / len(examples.targets)
"""


@pytest.fixture(autouse=True)
def _forgetting():
    with forgetting():
        yield


def checked(call, folder, code, *words):
    (folder / "my_parts.py").write_text(code)
    return call("check", "my_parts.py", *words, cwd=folder, columns=200)


def test_everything_holds(tmp_path, call):
    said = checked(call, tmp_path, CODE)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "NOT" not in said.stdout
    assert "not compared" not in said.stdout
    for part in ("sublayer decayed_sum", "objective late", "optimiser sign_momentum", "task alternation", "family decayed"):
        assert f"{part}\n" in said.stdout
    for what in ("killed and resumed equals never interrupted", "logits are those of its reference", "(decayed sum)"):
        assert what in said.stdout
    count = said.stdout.count("  holds  ")
    assert said.stdout.endswith(f"my_parts: {count} of {count} hold\n")


FAULTS = {
    "leaks the future": (
        "self.output(torch.stack(sums, 1))", "self.output(torch.stack(sums, 1) + value.mean(1, keepdim=True))",
        "no token sees a later one", "a later token is changed",
    ),
    "parameters": (
        'shape.rows, role="column")', 'shape.rows, role="column", bias=True)',
        "declared weights are the parameters", "sublayer.value.bias",
    ),
    "flops": (
        'width, self.features, shape.rows, role="column"', 'width, self.features, 2 * shape.rows, role="column"',
        "declared flops are counted", "torch counts",
    ),
    "state": ("state.sums.copy_(total)", "pass", "cached and chunked equal the whole", ""),
    "bytes of state": ("* SUM_BYTES", "* 2", "state takes the declared bytes", ""),
    "padding": ("if context.valid is None else", "if True else", "padded row equals the row alone", ""),
    "documents": ("total = total.masked_fill(begins[:, None], 0)", "pass", "packed documents equal each alone", ""),
    "division": ("self.features // ways)", "self.features // ways, keep=0.5)", "parts of sublayers add up", ""),
    "its twin": ("total = part.keep * total +", "total = 0.8 * total +", "sublayer equals its twin", "outputs beside the twin"),
    "the cut of a batch": (
        "    factor: Annotated[float, Field(gt=0)] = 2.0\n", "    factor: Annotated[float, Field(gt=0)] = 2.0\n" + BY_ROWS,
        "loss does not depend on the cut", "the loss in pieces",
    ),
    "a loss beside its twin": (
        "torch.where(late, self.factor,", "torch.where(late, self.factor / 2,",
        "loss equals its twin", "the loss beside the twin",
    ),
    "the state of an optimiser": (
        "return 4 * weight.count", "return 8 * weight.count", "state takes the declared bytes", "state_bytes says",
    ),
    "a state that is no tensor of it": (
        'state["momentum"].mul_(self.keep).add_(gradient)',
        "self.__dict__[f'{id(state)}'] = self.__dict__.get(f'{id(state)}', 0 * weight) * self.keep + gradient",
        "state survives save and load", "differs after the state was read again",
    ),
    "a rule that is not elementwise": (
        "momentum.sign(), alpha=-rate", "momentum / momentum.abs().mean(), alpha=-rate",
        "parts of a weight change like the whole", "so its rule is not elementwise",
    ),
    "an update beside its twin": (
        "(momentum.sign(),", "((momentum + gradient).sign(),", "updates equal its twin", "beside the twin",
    ),
    "no step": ("alpha=-rate)\n", "alpha=rate)\n", "loss falls at some rate", "the loss of one batch goes from"),
    "chance": (
        "return 1 / self.letters", "return 3 / self.letters",
        "chance is that of the best guess", "the stated chance is 25.0%",
    ),
    "draws": (
        'draws.shuffled("letters"', 'Draws.of(np.arange(len(draws)), 3).shuffled("letters"',
        "sequence depends on its number", "",
    ),
    "distances": ("row[:, 2:], 1", "row[:, 2:], 2", "distance leads back to the target", ""),
    "its solution": (
        "return {place: row[place - 1]", "return {place: row[place]", "answers are those of its solution", "the solution says",
    ),
    "names of weights": ('"mixer.v_proj"', '"mixer.q_proj"', "logits are those of its reference", "mixer.v_proj"),
    "a number of the family": (
        "words.rms_norm(config, 1e-6)", "words.rms_norm(config, 1e-2)", "logits are those of its reference", "differ by",
    ),
    "a key that is not written": ('at="decayed_sum.features", ', "at=lambda target: 7, ", "configuration there and back", ""),
}  # fmt: skip
"""What is put wrong: the code, what stands in its place, the contract that breaks, and what its reason says."""


FIRST = {
    "parameters": ("declared weights are the parameters", 26),
    "its twin": ("sublayer equals its twin (decayed sum)", 2),
    "leaks the future": ("no token sees a later one", 11),
    "bytes of state": ("state takes the declared bytes", 9),
    "padding": ("padded row equals the row alone", 5),
    "state": ("cached and chunked equal the whole", 7),
    "flops": ("declared flops are counted", 4),
}
"""A mistake in the part -> the one contract that is broken, and how many of its own are at least not asked because of it."""


@pytest.mark.parametrize("fault", FIRST)
def test_of_a_mistake_the_first_thing_is_named_and_nothing_that_follows(fault, tmp_path, call):
    """Whatever stands in the part's model or in its family is not asked again, and nothing is trained."""
    (right, wrong, *_), (contract, least) = FAULTS[fault], FIRST[fault]
    code = CODE.replace(right, wrong)
    with forgetting():
        said = checked(call, tmp_path, code, "--only", "decayed")
    assert said.returncode == 1, said.stdout + said.stderr
    assert re.findall(r"^  DOES NOT HOLD +(.*)$", said.stdout, re.M) == [contract]
    of_part, of_family = re.findall(r"^  not asked +(\d+) that needs?: (.*)$", said.stdout, re.M)
    assert of_part[1] == contract
    assert int(of_part[0]) >= least
    assert of_family[1] == f"sublayer decayed_sum: {contract}"
    assert "killed and resumed" not in said.stdout
    first, total = said.stdout.splitlines()[-2:]
    assert first == f"first: sublayer decayed_sum: {contract}"
    assert total.endswith(f"1 does not, {int(of_part[0]) + int(of_family[0])} were not asked")


def test_json_names_the_first_thing_and_what_is_not_asked(tmp_path, call):
    right, wrong, *_ = FAULTS["parameters"]
    said = checked(call, tmp_path, CODE.replace(right, wrong), "--only", "sublayer", "--json")
    told = json.loads(said.stdout)
    assert (said.returncode, told["holds"], told["first"]["what"]) == (1, False, "declared_weights_are_the_parameters")
    left = [each for each in told["findings"] if each["says"] == "not asked"]
    assert [each["fails"] for each in told["findings"]].count(True) == 1
    needed = {"of": "sublayer decayed_sum", "what": "declared_weights_are_the_parameters"}
    assert [each["needs"] for each in left] == [needed] * len(left)
    assert len(left) > 20


def test_what_one_example_breaks_the_next_is_not_asked(tmp_path, call):
    right, wrong, *_ = FAULTS["flops"]
    code = CODE.replace(right, wrong).replace("DecayedSum(features=6)]", "DecayedSum(features=6), DecayedSum(features=8)]")
    said = checked(call, tmp_path, code, "--only", "flops are")
    assert said.stdout.count("DOES NOT HOLD") == 1
    assert "sublayer decayed_sum (2)\n  not asked         1 that needs: declared flops are counted\n" in said.stdout


@pytest.mark.parametrize("what", ["gpt2", "tiny.toml"])
def test_an_architecture_is_held_to_the_contracts_in_its_tiny_form(what, tmp_path, call):
    (tmp_path / "tiny.toml").write_text(to_toml(architecture("gpt2", tiny=True)))
    said = call("check", what, "--only", "causal", cwd=tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == f"{what}\n  holds             no token sees a later one\n{what}: 1 of 1 hold\n"


def test_all_contracts_of_an_architecture(tmp_path, call):
    said = call("check", "gpt2", cwd=tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    for contract in ("cached and chunked equal the whole", "diagram is drawn", "killed and resumed equals never interrupted"):
        assert f"  holds             {contract}\n" in said.stdout


def test_a_name_that_is_nothing(tmp_path, call):
    said = call("check", "gpt22", cwd=tmp_path)
    assert said.returncode == 2
    assert "plug-in gpt22: no such module is installed" in said.stderr
    assert "did you mean" in said.stderr


def test_one_contract_needs_no_library_but_torch():
    """Whoever asks one contract waits for torch and little more."""
    code = "import sys; from anyformer.cli import main; sys.argv = ['anyformer', 'check', 'gpt2', '--only', 'causal']\n"
    code += "try: main()\nfinally: print(*sorted(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(said.stdout.splitlines()[-1].split())
    assert "torch" in loaded
    heavy = {"sympy", "matplotlib", "torch.distributed.tensor", "anyformer.training", "anyformer.huggingface", "transformers"}
    assert not heavy & loaded


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_is_on_its_own_line(fault, tmp_path, call):
    right, wrong, contract, reason = FAULTS[fault]
    assert right in CODE
    said = checked(call, tmp_path, CODE.replace(right, wrong), "--only", contract)
    assert said.returncode == 1, said.stdout + said.stderr
    assert f"  DOES NOT HOLD     {contract}" in said.stdout
    assert reason in said.stdout
    assert re.search(r", \d+ do(es)? not(, \d+ (was|were) not asked)?\n\Z", said.stdout)


def test_what_cannot_be_tested_says_what_to_give(tmp_path, call):
    code = CODE[: CODE.index("CHECKS = Checks(")]
    with forgetting():
        said = checked(call, tmp_path, code, "--only", "a configuration")
        assert (said.returncode, "MISSING           a configuration" in said.stdout) == (1, True)
    with forgetting():
        said = checked(call, tmp_path, code, "--only", "an ")
    assert said.returncode == 1
    assert "has no default for features: give one in Checks(examples=[...])" in said.stdout
    assert "MISSING           an example" in said.stdout
    without = CODE.replace('solutions={"alternation": alternation_by_hand},', "").replace(
        'references={"decayed": decayed_reference},', ""
    )
    with forgetting():
        said = checked(call, tmp_path, without, "--only", "are those of")
        assert said.returncode == 0
        assert said.stdout.count("not compared") == 2
        assert "transformers has no such model type" in said.stdout


def test_a_family_of_transformers_is_compared_with_it(tmp_path, call):
    code = (
        "from anyformer.huggingface import Family, register, registry\n"
        "from anyformer.huggingface.families.starcoder2 import FAMILIES, read as theirs\n"
        "from anyformer.testing import Checks\n\n\n"
        "def read(config):\n    return theirs(config)\n\n\n"
        "register(Family('cpmant', read, FAMILIES[0].names, 'CpmAntForCausalLM', FAMILIES[0].inert))\n"
        "CHECKS = Checks(configurations=[{'model_type': 'cpmant', 'vocab_size': 37, 'hidden_size': 24,\n"
        "    'intermediate_size': 20, 'num_attention_heads': 4, 'num_hidden_layers': 1, 'num_key_value_heads': 2}])\n"
    )
    said = checked(call, tmp_path, code, "--only", "logits are those of transformers")
    assert said.returncode == 1
    assert "logits are those of transformers" in said.stdout
    assert "transformers cannot load it" in said.stdout or "differ" in said.stdout


@pytest.mark.parametrize(
    ("kind", "base", "home"),
    [
        ("mask", "Causal", "anyformer.parts"),
        ("norm", "RMSNorm", "anyformer.parts"),
        ("score bias", "ALiBi", "anyformer.parts"),
        ("temperature", "LengthTemperature", "anyformer.parts"),
        ("scaling", "Proportional", "anyformer.parts"),
        ("position", "SinusoidalPosition", "anyformer.parts"),
        ("feature map", "EluPlusOne", "anyformer.parts"),
        ("selection", "Hashed", "anyformer.parts"),
        ("initialisation", "Normal", "anyformer.parts"),
    ],
)
def test_every_kind_of_part_has_a_place_to_stand(kind, base, home, tmp_path, call):
    """A class like one of ours under another kind is held to the contracts of a model that has it."""
    given = {"LengthTemperature": "trained=4", "Proportional": "fraction=0.5", "Normal": "std=0.25"}.get(base, "")
    code = (
        f"from typing import Literal\n\nfrom {home} import {base}\nfrom anyformer.testing import Checks\n\n\n"
        f"class Mine({base}):\n    kind: Literal['my_own'] = 'my_own'\n\n\nCHECKS = Checks(examples=[Mine({given})])\n"
    )
    said = checked(call, tmp_path, code, "--only", "declared")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "declared flops are counted" in said.stdout


def test_an_error_of_its_own_code_is_a_line_too(tmp_path, call):
    code = (
        "from typing import Literal\n\nfrom anyformer.parts.sublayer import Sublayer\n\n\n"
        "class Unfinished(Sublayer):\n    kind: Literal['unfinished'] = 'unfinished'\n\n"
        "    def state(self, *sizes):\n        raise RuntimeError('not written yet')\n"
    )
    said = checked(call, tmp_path, code)
    assert said.returncode == 1
    assert "Traceback" not in said.stdout + said.stderr
    assert "DOES NOT HOLD     its description can be asked" in said.stdout
    assert "RuntimeError: not written yet" in said.stdout


OBJECTIVE = """
from typing import Literal

from anyformer.objectives import ClassificationObjective
from anyformer.testing import Checks


class Mine(ClassificationObjective):
    kind: Literal["mine"] = "mine"


DATA = {"kind": "labelled", "paths": ["rows.jsonl"], "tokenizer": {"kind": "bytes"}, "validation": 0.2}
"""


def test_an_objective_on_other_data_is_given_a_run(tmp_path, call):
    rows = [{"text": f"{'even' if n % 2 else 'odd'} things {n}", "label": "ab"[n % 2]} for n in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = architecture("bert-base-uncased", tiny=True).but(head=Head(pool="first", outputs=2))
    (tmp_path / "model.toml").write_text(to_toml(model))
    with forgetting():
        said = checked(call, tmp_path, OBJECTIVE)
        assert (said.returncode, "MISSING           a run" in said.stdout) == (1, True)
        assert "give a tiny one in Checks(runs=[...])" in said.stdout
    given = "CHECKS = Checks(runs=[{'objective': {'kind': 'mine'}, 'data': DATA, 'architecture': 'model.toml'}])\n"
    said = checked(call, tmp_path, OBJECTIVE + given)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.count("  holds  ") == 5


def test_a_module_that_defines_nothing(tmp_path, call):
    said = checked(call, tmp_path, "x = 3\n")
    assert said.returncode == 2
    assert "defines no class with a kind, and registers no family" in said.stderr
