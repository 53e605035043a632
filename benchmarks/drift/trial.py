"""One value of one key, tried: a tiny random model of transformers with it, and ours of its files."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from benchmarks.drift.asked import SAME, Asked, differing, reason, recorded, unasked
from benchmarks.drift.comparing import Comparison
from benchmarks.drift.effects import effects, first_values, moved
from benchmarks.drift.files import computation, named, table, table_of_tokens, with_move
from benchmarks.drift.keys import Path as Keys
from benchmarks.drift.keys import made
from benchmarks.drift.outcome import ENDED, Outcome, TimeIsUpError, refusal, said, within
from benchmarks.drift.values import Move, values
from torch import Tensor

from anyformer import huggingface
from anyformer.describe import Notice, UserError
from anyformer.huggingface.convert import architecture_of
from anyformer.model import Architecture
from huggingface import nearness, parity
from huggingface.case import VOCAB, Case
from huggingface.parity import AUTO, Pair

SECONDS = 60
"""For one value."""
FEWEST = 8
"""Tokens of a vocabulary that is tried."""
SHARED = Path("/dev/shm")


class Base:
    """The tiny configuration that keys are moved from, its results, and its architecture."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.kernel = case.kernel or parity.family_of(case).kernel
        self.theirs: Any = None
        self.ours: Any = None
        self.comparison = Comparison()
        self.architecture: Architecture | None = None
        self.weights: dict[str, Any] = {}
        self.read: Architecture | None = None
        self.described: Architecture | None = None
        self.effects: dict[str, Any] = {}
        self.asked: Asked = {}
        self.outcome = self.tried((), {})
        if self.outcome.ended == "equal":
            self._listen()
        turning = (
            [buffer.shape[-1] for name, buffer in self.theirs.named_buffers() if "inv_freq" in name] if self.theirs else []
        )
        self.frequencies = turning[0] if turning else 4

    def tried(self, path: Keys, move: Mapping[str, Any]) -> Outcome:
        """The outcome of a move; never an error."""
        directory = Path(tempfile.mkdtemp(prefix="drift-", dir=SHARED if SHARED.is_dir() else None))
        try:
            with within(SECONDS):
                return self._tried(path, move, directory)
        except TimeIsUpError as error:
            return Outcome("crash", f"time is up {error}")
        except Exception as error:  # a mistake of the sweep's own, which must not end it
            return Outcome("crash", f"the sweep: {said(error)}"[:300])
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def moves(self, path: Keys, usual: Any) -> list[Move]:
        """The values of a key; `usual`: its default."""
        table: Any = self.case.config
        effective = self.effective
        for key in path[:-1]:
            table, effective = table[key], effective.get(key) or {}
        here = table.get(path[-1], effective.get(path[-1], usual))
        return values(self._kind(path), path[-1], usual, here, self.frequencies)

    def asks(self, path: Keys) -> bool:
        """Whether any code of transformers asks for a key while the unmoved model is made and computes."""
        return path[-1] in self.asked

    def _kind(self, path: Keys) -> str:
        """The type of model in whose table a key stands."""
        table: Any = self.case.config
        for key in path[:-1]:
            table = table[key]
        return str(table.get("model_type", self.case.model_type)) if len(path) > 1 else self.case.model_type

    def _tried(self, path: Keys, move: Mapping[str, Any], directory: Path) -> Outcome:
        config = with_move(self.case.config, path, move) if path else self.case.config
        case = replace(self.case, config=config)
        if path and (known := self.quick(path, move)):
            return known
        try:
            theirs, first = self._made(case)
            saved = json.loads(theirs.config.to_json_string())
        except TimeIsUpError:
            raise
        except Exception as error:  # whatever a class says of a value
            return Outcome("transformers refuses", said(error))
        symbols = table_of_tokens(case, theirs)
        if isinstance(symbols, torch.nn.Embedding):
            if symbols.num_embeddings <= FEWEST:
                return Outcome("transformers refuses", "a vocabulary of too few tokens to try")
            case = replace(case, config={**case.config, "vocab_size": symbols.num_embeddings})
        elif path == ("vocab_size",):  # not of the table that is read, whose tokens are those of the base
            case = replace(case, config={**config, "vocab_size": self.case.config.get("vocab_size", VOCAB)})
        files = [named(keys, self.case.model_type, theirs) for keys in (saved, config)]
        if path and self._the_same(theirs, files):
            pair = Pair(case, theirs.float(), self.ours, directory)
            return self._with_effect(self.comparison.gaps(pair, whole=False, move=move), pair, first, config)
        try:
            theirs.save_pretrained(directory)
        except Exception as error:
            return Outcome("transformers refuses", said(error))
        theirs = theirs.float()
        worst, read = Outcome("equal"), None
        for keys in files:
            (directory / "config.json").write_text(json.dumps(keys))
            outcome, read = self._compared(case, theirs, directory, path, move, read)
            if ENDED.index(outcome.ended) > ENDED.index(worst.ended) or worst.moves is None:
                worst = outcome
            if outcome.ended == "transformers refuses":
                return outcome
        return self._with_effect(worst, Pair(case, theirs, self.ours, directory), first, config) if path else worst

    def quick(self, path: Keys, move: Mapping[str, Any]) -> Outcome | None:
        """The outcome of a move if it is known without a model: refused by name, or asked for by no code."""
        config = with_move(self.case.config, path, move)
        try:
            same = self._described([named(config, self.case.model_type, self.theirs)])
        except UserError as error:
            refused = refusal(error, path, move)
            return refused if refused.ended == "refused by name" else None
        except Exception:  # which the whole comparison will meet again
            return None
        why = self._never_asked(path, config) if same else ""
        return Outcome("equal", why, moves=False) if why else None

    def _listen(self) -> None:
        """Remember what classes of transformers ask for while the base is made and computes, and what follows beside logits."""
        self.configured = made(self.case.model_type, self.case.config)
        self.effective = self.configured.to_dict()
        config = deepcopy(self.configured)
        with recorded() as self.asked:
            theirs, first = self._of(config, self.case)
            pair = Pair(self.case, theirs.float(), self.ours, SHARED)
            self.effects = {**effects(pair), "first values": first}
            if parity.pads(pair):
                with suppress(Exception):  # as where its outcome was found
                    nearness.PADDED.theirs(pair)

    def _never_asked(self, path: Keys, config: dict[str, Any]) -> str:
        """Why a configuration moves nothing if classes of transformers ask for nothing in which it differs from the base's, and
        ours of both is the same: then both compute what they did, and no model is made. Else an empty text."""
        try:
            theirs = made(self.case.model_type, config)
            names = differing(theirs, self.configured)
            if names & self.asked.keys():
                return ""
            saved = json.loads(theirs.to_json_string())
            if not self._described([named(saved, self.case.model_type, self.theirs)]):
                return ""
        except Exception:  # which the whole comparison will meet again
            return ""
        return unasked(path[-1], self._kind(path), self.theirs) if names else SAME

    def _with_effect(self, outcome: Outcome, pair: Pair, first: tuple[float, ...], config: dict[str, Any]) -> Outcome:
        """An outcome with what was moved beside the logits where they were not, or by who asks for the key."""
        if outcome.ended != "equal" or outcome.moves is not False or outcome.why:
            return outcome
        why = moved(self.effects, {**effects(pair), "first values": first})
        names = differing(made(self.case.model_type, config), self.configured)
        return replace(outcome, why=why or reason(names, self.asked))

    def _the_same(self, theirs: Any, files: list[dict[str, Any]]) -> bool:
        """Whether ours of these files is that of the base: the same architecture, and the same weights."""
        weights = theirs.state_dict()
        if weights.keys() != self.weights.keys() or not all(_same(weights[name], each) for name, each in self.weights.items()):
            return False
        try:
            return self._described(files)
        except Exception:  # which the whole comparison will meet again
            return False

    def _described(self, files: list[dict[str, Any]]) -> bool:
        """Whether files are read here as the base is."""
        read = (huggingface.read_architecture(huggingface.Config(keys))[0] for keys in files)
        return all(each == self.read or computation(each) == self.described for each in read)

    def _made(self, case: Case) -> tuple[Any, tuple[float, ...]]:
        """Theirs, with random weights, and what it was made with."""
        return self._of(made(case.model_type, case.config), case)

    def _of(self, config: Any, case: Case) -> tuple[Any, tuple[float, ...]]:
        torch.manual_seed(0)
        make = AUTO[case.task].from_config if case.task in AUTO else getattr(transformers, case.task)._from_config
        # Transformers gives weights of attention under this implementation alone.
        model = make(config, attn_implementation="eager" if case.config.get("output_attentions") else self.kernel).eval()
        if case.untied:
            head = model.get_output_embeddings()
            head.weight = torch.nn.Parameter(head.weight.detach().clone())
        first = first_values(model)
        parity.randomise(model)
        return model, first

    def _compared(
        self, case: Case, theirs: Any, directory: Path, path: Keys, move: Mapping[str, Any], read: Architecture | None
    ) -> tuple[Outcome, Architecture | None]:
        """Ours of a directory beside theirs; `read`: the architecture that was compared already."""
        told: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                huggingface.read_architecture(huggingface.Config(table(directory)))
            architecture = computation(architecture_of(directory)[0])
            if architecture == read:
                return Outcome("equal"), read
            ours, _ = huggingface.load(directory, dtype=torch.float32)
        except UserError as error:
            refused = refusal(error, path, move)
            if refused.ended == "unclear refusal" and not self._computes(case, theirs):
                return Outcome("transformers refuses", "its computation fails"), read
            return refused, read
        except TimeIsUpError:
            raise
        except Exception as error:
            if not self._computes(case, theirs):
                return Outcome("transformers refuses", "its results"), read
            return Outcome("crash", said(error)), read
        pair = Pair(case, theirs, ours, directory)
        outcome = self.comparison.gaps(pair, whole=architecture != self.architecture, move=move)
        if outcome.ended == "drift":
            outcome = self._reloaded(pair, outcome, move)
        notices = [str(each.message) for each in told if issubclass(each.category, Notice)]
        if outcome.ended == "drift" and any(path[-1] in notice for notice in notices):
            outcome = replace(outcome, ended="noted by name", why=notices[0])
        if not path:
            self.architecture, self.theirs, self.ours = architecture, theirs, ours
            self.comparison.ours = ours
            self.weights = theirs.state_dict()
            self.read = huggingface.read_architecture(huggingface.Config(table(directory)))[0]
            self.described = computation(self.read)
        return outcome, architecture

    def _reloaded(self, pair: Pair, outcome: Outcome, move: Mapping[str, Any]) -> Outcome:
        """The comparison with what transformers reads from the files, which may be another model than it wrote them from."""
        try:
            theirs = type(pair.theirs).from_pretrained(pair.directory, dtype=torch.float32, attn_implementation=self.kernel)
        except Exception as error:  # whatever it says of its own files
            return Outcome("transformers refuses", said(error))
        again = self.comparison.gaps(replace(pair, theirs=theirs.eval()), whole=False, move=move)
        why = f"as transformers reads its own files, which differ from what it wrote: {outcome.why}"
        return replace(again, why=why) if again.ended == "equal" else outcome

    def _computes(self, case: Case, theirs: Any) -> bool:
        """Whether theirs computes a plain batch at all."""
        try:
            with torch.no_grad():
                parity.text_model(theirs)(input_ids=parity.given(case))
        except Exception:  # whatever its computation says
            return False
        return True


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)
