"""`JobSet`: a manifest for Kubernetes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from anyformer.describe import UserError
from anyformer.launching.cluster import Cluster, Program
from anyformer.launching.launch import Launch

POD = "node"
"""The name of the job whose pods are the nodes."""
PLAIN = re.compile(r"[A-Za-z_/][\w./-]*")
"""A word that means itself in YAML."""
WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
"""Words that some versions of YAML read as something else."""


class JobSet(Cluster):
    """A JobSet of Kubernetes (jobset.x-k8s.io): a pod per node, and a headless service by which they find one another."""

    suffix: ClassVar[str] = ".yaml"

    kind: Literal["k8s"] = "k8s"
    image: str | None = None
    """The container image, which has anyformer and its torchrun."""
    namespace: str | None = None
    """The namespace. Absent: that of kubectl."""
    claim: str | None = None
    """The volume that all pods share (a PersistentVolumeClaim): it holds the run's file, its data and its directory."""
    directory: str = "/work"
    """Where this volume is in the pods, which start there."""
    resource: str = "nvidia.com/gpu"
    """The name of an accelerator as a resource."""

    def script(self, launch: Launch) -> str:
        parts = [self._service(launch), self._job_set(launch)]
        texts = ["\n".join(_lines(part)) for part in parts]
        return "\n".join([launch.head, "\n---\n".join(texts), ""])

    def submit(self, file: str) -> str:
        return f"kubectl apply -f {shlex.quote(file)}"

    def programs(self, launch: Launch, file: str) -> list[Program]:
        pods = range(launch.nodes)
        return [Program(tuple(self._command(launch)), {"HOSTNAME": f"{launch.name}-{POD}-0-{pod}"}) for pod in pods]

    def check(self, launch: Launch) -> None:
        for name, given, example in (("image", self.image, "my/image:1"), ("claim", self.claim, "my-volume")):
            if given is None:
                raise UserError(f"--on k8s needs {name}: --set {name}={example}")

    def ends(self) -> str:
        return (
            f"a pod that is evicted has {self.ending} minutes to save and end; then all pods begin again, where the run was "
            f"saved, {self.restarts} times at most"
        )

    def _command(self, launch: Launch) -> list[str]:
        first = f"{launch.name}-{POD}-0-0.{launch.name}:{self.port}"
        words = self.torchrun(launch, launch.name, first)
        # Signals come to the first process of a pod, which must be torchrun.
        return (
            ["bash", "-c", "\n".join([*self.setup, f"exec {' '.join(words)}"])] if self.setup else shlex.split(" ".join(words))
        )

    def _named(self, launch: Launch) -> dict[str, str]:
        return {"name": launch.name} | ({} if self.namespace is None else {"namespace": self.namespace})

    def _service(self, launch: Launch) -> dict[str, Any]:
        chosen = {"jobset.sigs.k8s.io/jobset-name": launch.name}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self._named(launch),
            # Pods must find one another before they are ready.
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": chosen},
        }

    def _job_set(self, launch: Launch) -> dict[str, Any]:
        job = {
            "completionMode": "Indexed", "completions": launch.nodes, "parallelism": launch.nodes, "backoffLimit": 0,
            "template": {"spec": self._pod(launch)},
        }  # fmt: skip
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": self._named(launch),
            "spec": {
                "network": {"enableDNSHostnames": True, "subdomain": launch.name},
                "failurePolicy": {"maxRestarts": self.restarts},
                "replicatedJobs": [{"name": POD, "replicas": 1, "template": {"spec": job}}],
            },
        }

    def _pod(self, launch: Launch) -> dict[str, Any]:
        container = {
            "name": "train", "image": self.image, "workingDir": self.directory, "command": self._command(launch),
            "env": [{"name": name, "value": value} for name, value in self.variables.items()],
            "ports": [{"containerPort": self.port}], "resources": {"limits": {self.resource: launch.gpus}},
            "volumeMounts": [{"name": "work", "mountPath": self.directory}, {"name": "memory", "mountPath": "/dev/shm"}],
        }  # fmt: skip
        return {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 60 * self.ending,
            "containers": [container],
            "volumes": [
                {"name": "work", "persistentVolumeClaim": {"claimName": self.claim}},
                # nccl's processes of a node speak by shared memory, of which a pod has 64 MB otherwise.
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
            ],
        }


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """A table or list as lines of YAML."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _entry(f"{indent}{_scalar(name)}:", item, indent + "  ")
    else:
        for item in value:
            inner = list(_lines(item, indent + "  ")) if _nested(item) else [f"{indent}  {_scalar(item)}"]
            yield from (f"{indent}- {inner[0].lstrip()}", *inner[1:])


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if not _nested(item):
        yield f"{head} {_scalar(item)}"
    else:
        yield head
        yield from _lines(item, indent)


def _nested(item: Any) -> bool:
    return isinstance(item, Mapping | Sequence) and not isinstance(item, str)


def _scalar(item: Any) -> str:
    """A number or word, quoted as JSON does where YAML could read it as something else."""
    if isinstance(item, str) and PLAIN.fullmatch(item) and item.lower() not in WORDS:
        return item
    return json.dumps(item)
