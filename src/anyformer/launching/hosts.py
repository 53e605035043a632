"""`Hosts`: a shell script that starts a run on machines by ssh."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from textwrap import indent
from typing import ClassVar, Literal

from pydantic import field_validator

from anyformer.describe import UserError
from anyformer.launching.cluster import Cluster, Program
from anyformer.launching.launch import Launch, folded, waited

BODY = """\
hosts=(HOSTS)

# What each host runs. Its processes save and end when the connection does: its input is then at an end.
node=$(cat <<'END'
cd DIRECTORY || exit
EXPORTS
exec 3<&0
TORCHRUN </dev/null 3<&- &
running=$!
{ cat <&3; kill -TERM "$running"; } >/dev/null 2>&1 &
watching=$!
wait "$running"
code=$?
kill "$watching" 2>/dev/null
exit "$code"
END
)

# The input of every connection, which ends with this script, however that ends.
folder=$(mktemp -d)
mkfifo "$folder/input"
exec 3<>"$folder/input"
trap 'exec 3>&-' INT TERM HUP

running=()
for host in "${hosts[@]}"; do
  ssh -o BatchMode=yes -o ServerAliveInterval=30 "$host" "$node" <"$folder/input" 3>&- &
  running+=($!)
done

code=0
for each in "${running[@]}"; do
  WAITED
  [ "$found" -eq 0 ] || code=$found
done
rm -r "$folder"
exit "$code"
"""


class Hosts(Cluster):
    """Machines that ssh reaches without a password, the first of which the others meet."""

    suffix: ClassVar[str] = ".sh"
    stand_ins: ClassVar[tuple[str, ...]] = ("ssh",)

    kind: Literal["ssh"] = "ssh"
    hosts: tuple[str, ...] = ()
    """The machines, by names that ssh and they themselves use."""
    directory: str | None = None
    """The directory of the machines in which the run starts. Absent: the one in which the script was written."""

    @field_validator("hosts")
    @classmethod
    def _named(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            if not re.fullmatch(r"(\w[\w.-]*@)?\w[\w.:-]*", each):
                raise ValueError(f"should be names of machines, as in node-1 or me@node-1, got {each!r}")
        if len(set(given)) < len(given):
            raise ValueError(f"names a machine twice: {', '.join(given)}")
        return given

    def script(self, launch: Launch) -> str:
        first = self.hosts[0].rpartition("@")[2]
        words = {
            "HOSTS": " ".join(map(shlex.quote, self.hosts)),
            "DIRECTORY": shlex.quote(self.directory or str(Path.cwd())),
            "WAITED": indent(waited("each", "found", "connection"), "  ").lstrip(),
            "EXPORTS": "\n".join(self.exports),
            "TORCHRUN": folded(self.torchrun(launch, launch.name, f"{first}:{self.port}")),
        }
        body = re.sub("|".join(rf"\b{word}\b" for word in words), lambda found: words[found[0]], BODY)
        return "\n".join(["#!/bin/bash", launch.head, body])

    def submit(self, file: str) -> str:
        return f"bash {shlex.quote(file)}"

    def programs(self, launch: Launch, file: str) -> list[Program]:
        return [Program(("bash", file), {})]

    def check(self, launch: Launch) -> None:
        if len(self.hosts) != launch.nodes:
            example = ", ".join(f'"node-{number}"' for number in range(min(launch.nodes, 3)))
            raise UserError(
                f"--nodes {launch.nodes}, and hosts names {len(self.hosts)} machines: name as many, as in --set "
                f"'hosts=[{example}{', ...' * (launch.nodes > 3)}]'"
            )

    def ends(self) -> str:
        return "Ctrl-C, or the end of the script, ends every connection: the processes save and end"
