"""The process that runs somebody else's code: it confines itself, runs the code, and writes how each test ended.

It is started by its path, without packages (`sandbox.py`), as `confined.py CONFINEMENT PAYLOAD REPORT`: a file of code, and the
numbers of two open files. The payload is JSON, `{"code", "tests", "key", "seconds", "memory", "readable"}`; the report is lines
that begin with the key: `KEY ready`, `KEY test 3 1`, `KEY error NameError`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from typing import Any


def main(confinement: str, payload: int, report: int) -> None:
    with open(payload, encoding="utf-8") as file:
        given = json.load(file)
    write = _writer(report, given["key"])
    spec = importlib.util.spec_from_file_location("confinement", confinement)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        module.confine(given["seconds"], given["memory"], given["readable"])
    except (OSError, ValueError) as error:
        write(f"refused {error}")
        return
    write("ready")
    random.seed(0)  # as much as may be: a reward is a function of the answer
    names: dict[str, Any] = {"__name__": "__main__" if given["whole"] else "answer"}
    try:
        exec(compile(given["code"], "answer.py", "exec"), names)
    except BaseException as error:  # whatever somebody else's code raises, SystemExit too
        if not (given["whole"] and isinstance(error, SystemExit) and error.code in (None, 0)):
            write(f"error {type(error).__name__}")
            return
    sys.stdout.flush()
    write("ran")
    for number, test in enumerate(given["tests"]):
        try:
            exec(compile(test, f"test {number}", "exec"), names)
        except BaseException as error:
            write(f"test {number} 0 {type(error).__name__}")
        else:
            write(f"test {number} 1")


def _writer(report: int, key: str) -> Any:
    """A function that writes a line; it holds what it needs, whatever is put in the place of names in `os`."""
    put = os.write
    return lambda words: put(report, f"{key} {words}\n".encode(errors="replace")[:500])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
