"""The process of one trial: `python -m anyformer.studies.process DIRECTORY` trains the run there, from where it stopped.

It holds a lock beside the directory from start to end, so that of two processes one trains and the other leaves with `HELD`.
Whatever ends the training, a file then says how; where there is none, the process was stopped or killed, and goes on next time.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from anyformer.describe import UserError, read_json, to_toml
from anyformer.files import write_text
from anyformer.studies.lengths import ask, left_to_ask
from anyformer.studies.outcome import OUTCOME, Ended
from anyformer.studies.trials import Trial
from anyformer.training import NonFiniteError, Stopped, load_run, resume, train
from anyformer.training.instability import SpikeError
from anyformer.training.journal import RUN, read_metrics
from anyformer.training.parent import end_with_parent

HELD = 75
"""The exit code where another process has the trial: `EX_TEMPFAIL` of sysexits.h."""
ASKED, FACTS = "trial.toml", "trial.json"
DIVERGED = (NonFiniteError, SpikeError)


def lay_out(trial: Trial, directory: Path) -> None:
    """Write what the process of a trial reads: its run, and beside it arm, value, threads and key."""
    directory.mkdir(parents=True, exist_ok=True)
    facts = {
        "key": trial.key, "arm": trial.arm, "value": trial.value, "seed": trial.run.seed, "threads": trial.threads,
        "lengths": trial.lengths,
    }  # fmt: skip
    write_text(directory / FACTS, json.dumps(facts, indent=2) + "\n")
    write_text(directory / ASKED, to_toml(trial.run))


def run(directory: Path) -> int:
    """Train the run of a directory, ask its model at the other lengths of the study, and write how it ended; the exit code,
    nonzero where it did not end or failed."""
    with holding(directory) as mine:
        if not mine:
            return HELD
        facts = read_json(directory / FACTS)
        key, lengths = facts["key"], facts["lengths"]
        before = Ended.read(directory, key)
        try:
            if before is None or before.status == "failed":
                (directory / OUTCOME).unlink(missing_ok=True)
                return _trained(directory, key, lengths)
            if before.status == "finished" and left_to_ask(directory, lengths):
                ask(directory, lengths)
        except Stopped as stopped:
            return stopped.exit_code
        except Exception as error:
            traceback.print_exc()
            said = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            Ended(key, "diverged" if isinstance(error, DIVERGED) else "failed", said).write(directory)
            return 1
        return 0


def _trained(directory: Path, key: str, lengths: Sequence[int]) -> int:
    """Train to the end, and write how that was; the exit code, nonzero where it did not end."""
    begun = (directory / RUN).is_file()
    trained = resume(directory) if begun else train(load_run(directory / ASKED), directory)
    if trained.exit_code:
        return trained.exit_code
    last = next(row for row in reversed(read_metrics(directory)) if row.get("last"))
    finite = math.isfinite(last["loss"])
    if finite and lengths:
        ask(directory, lengths)
    ended = Ended(key, "finished" if finite else "diverged", "" if finite else f"the held-out loss is {last['loss']}")
    ended.write(directory)
    return 0


@contextlib.contextmanager
def holding(directory: Path) -> Iterator[bool]:
    """Hold the lock of a trial, beside its directory; False where another process does. It ends with its process."""
    with directory.with_name(f".{directory.name}.lock").open("a") as file:
        if sys.platform == "win32":
            yield True
            return
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def main(arguments: Any = None) -> None:
    """The command line."""
    end_with_parent()
    (directory,) = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(Path(directory)))


if __name__ == "__main__":
    main()
