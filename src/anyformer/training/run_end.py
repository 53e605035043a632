"""How the last process of a run ended (`end.json`): who watches the run from outside cannot ask it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from anyformer.describe import UserError
from anyformer.files import write_text

END = "end.json"
WAS_ASKED = "it was asked to (Ctrl-C or SIGTERM)"


@contextmanager
def end_recorded(directory: Path, done: Callable[[], tuple[int, bool]], *, writes: bool) -> Iterator[None]:
    """Around the updates of a process. `done`: updates made, and whether these are all; `writes`: whether it is the one that
    writes the run's directory. While it trains, and after a kill, there is no such file."""
    if not writes:
        yield
        return
    (directory / END).unlink(missing_ok=True)
    state, reason = "failed", ""
    try:
        yield
        state, reason = ("finished", "") if done()[1] else ("stopped", WAS_ASKED)
    except KeyboardInterrupt:
        state, reason = "stopped", WAS_ASKED
        raise
    except BaseException as error:
        reason = _reason(error)
        raise
    finally:
        facts = {
            "state": state,
            "step": done()[0],
            "reason": reason,
            "at": datetime.now().astimezone().isoformat("T", "seconds"),
        }
        with suppress(OSError, UserError):  # a full disk is what it may be about
            write_text(directory / END, json.dumps(facts, ensure_ascii=False, indent=1) + "\n")


def _reason(error: BaseException) -> str:
    """Its first line, and the second where that only introduces what follows."""
    lines = [" ".join(line.split()) for line in (str(error) if isinstance(error, UserError) else repr(error)).splitlines()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
