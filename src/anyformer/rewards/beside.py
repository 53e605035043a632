"""The process of `aside.py`: it calls a function per line that it reads, and writes what it gives, or the error."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from typing import Any


def called(name: str, arguments: list[Any]) -> Any:
    """What `module:function`, of this package, gives."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = vars(importlib.import_module(module))[function]
    return found(*arguments)


def main() -> None:
    """Serve until the other end closes. What functions print goes to the error stream, and they read nothing: calls and replies
    are ours."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    calls, nothing = os.fdopen(os.dup(0), "rb"), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    replies.write('{"value": "ready"}\n')
    for line in calls:
        try:
            reply = json.dumps({"value": called(*json.loads(line))})
        except BaseException as error:  # of anybody's code; SystemExit, too
            reply = json.dumps({"error": f"{type(error).__name__}: {str(error)[:500]}"})
        replies.write(f"{reply}\n")


if __name__ == "__main__":
    main()
