"""Scripts that start a run on a cluster: what they say, what is refused before, and that they do what they say."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from anyformer.describe import UserError
from anyformer.launching import (
    Hosts,
    JobSet,
    Launch,
    RehearsalError,
    Slurm,
    check_layout,
    cluster_of,
    notes,
    rehearsed,
)
from anyformer.mesh import Mesh
from anyformer.training import load_run

PLACES = ("slurm", "ssh", "k8s")


@pytest.mark.parametrize("place", PLACES)
def test_every_node_starts_the_run(place, launch_on):
    started = rehearsed(*launch_on(place))
    assert [each.node for each in started] == {
        "slurm": ["node-0", "node-1"],
        "ssh": ["me@node-1", "node-0"],
        "k8s": ["my-run-node-0-0", "my-run-node-0-1"],
    }[place]
    words = started[0].words
    assert words[-6:] == ("-m", "anyformer", "train", "My run.toml", "--resume", "runs/one")
    asked = dict(zip(words[1:-6:2], words[2:-6:2], strict=True))
    endpoint = {"slurm": "node-0:29500", "ssh": "node-0:29500", "k8s": "my-run-node-0-0.my-run:29500"}[place]
    assert asked["--rdzv-endpoint"] == endpoint
    assert asked["--max-restarts"] == "3"


def test_hosts_meet_the_first_by_the_name_of_the_machine_alone(launch_on):
    cluster, launch = launch_on(Hosts(hosts=("me@node-7", "node-8")))
    script = cluster.script(launch)
    assert "--rdzv-endpoint node-7:29500" in " ".join(script.replace("\\\n", " ").split())
    assert "hosts=(me@node-7 node-8)" in script


def options(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]


def test_a_batch_script_asks_for_what_was_set(launch_on):
    cluster, launch = launch_on("slurm")
    assert {
        "--job-name=my-run", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=2", "--partition=gpu", "--account=mine",
        "--time=1:30:00", "--signal=B:USR1@600", "--requeue", "--exclusive",
    } <= set(options(cluster.script(launch)))  # fmt: skip
    more = cluster.but(
        cpus=16, image="a-b.sqsh", mounts=("/data:/data",), options=("--qos=long",), fewest=1,
        environment=("A=it's",), setup=("module load cuda",),
    )  # fmt: skip
    script = more.script(launch)
    assert {"--cpus-per-task=16", "--qos=long", "--no-kill"} <= set(options(script))
    assert "--exclusive" not in options(script)
    lines = script.splitlines()
    assert lines.index("export A='it'\"'\"'s'") < lines.index("module load cuda") < lines.index("trap end USR1")
    assert "--container-image=a-b.sqsh --container-mounts=/data:/data" in script
    assert "torchrun --nnodes 1:2 " in script
    assert "export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in lines, "nodes may come late"


def test_a_manifest_is_yaml_that_kubernetes_reads(launch_on):
    cluster, launch = launch_on("k8s")
    cluster = cluster.but(namespace="team", environment=("A=on", "B=1", "C=x: y #z"), setup=("source /v/bin/activate",))
    service, job_set = yaml.safe_load_all(cluster.script(launch))
    assert service["spec"]["clusterIP"] == "None", "headless"
    assert service["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": job_set["metadata"]["name"]}
    assert job_set["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    assert job_set["metadata"]["namespace"] == service["metadata"]["namespace"] == "team"
    (group,) = job_set["spec"]["replicatedJobs"]
    job = group["template"]["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 2}}
    values = {each["name"]: each["value"] for each in container["env"]}
    assert {name: values[name] for name in "ABC"} == {"A": "on", "B": "1", "C": "x: y #z"}
    bash, c, text = container["command"]
    assert (bash, c, text.splitlines()[0]) == ("bash", "-c", "source /v/bin/activate")
    words = shlex.split(text.splitlines()[1])
    assert words[:2] == ["exec", "torchrun"], "signals come to the first process of a pod"
    # The pods' names are <JobSet>-<job>-<its number>-<pod>, in the service's domain.
    head = f"{job_set['metadata']['name']}-{group['name']}-0-0.{job_set['spec']['network']['subdomain']}:29500"
    assert words[words.index("--rdzv-endpoint") + 1] == head
    assert job_set["spec"]["network"]["subdomain"] == service["metadata"]["name"]


@pytest.mark.parametrize(
    ("mesh", "nodes", "gpus", "says"),
    [
        (Mesh(shard=8), 2, 2, r"shard 8, which takes 8 processes or a multiple.*2 nodes of 2 make 4: start with --nodes 4,"),
        (Mesh(shard=3, data=1), 1, 2, r"shard 3, which takes 3 processes, and 1 node of 2 make 2: .*other --nodes and --gpus"),
        (Mesh(), 3, 1, r"3 nodes of 1: batch = 8 does not divide among 3 processes"),
        (Mesh(pipeline=2), 2, 1, r"2 nodes of 1: plan.mesh.pipeline = 2 .*accumulation"),
    ],
)
def test_processes_that_are_not_the_mesh_are_refused(mesh, nodes, gpus, says, file, launch_on):
    run = load_run(file, {"plan.mesh": mesh})
    with pytest.raises(UserError, match=says):
        check_layout(run, *launch_on(Slurm(), nodes, gpus))


def test_every_number_of_nodes_that_may_remain_is_checked(file, launch_on):
    run = load_run(file)
    check_layout(run, *launch_on(Slurm(fewest=1), 2, 2))
    with pytest.raises(UserError, match=r"3 nodes of 1: batch = 8"):
        check_layout(run, *launch_on(Slurm(fewest=2), 4, 1))
    with pytest.raises(UserError, match=r"fewest = 5 is more than --nodes 4"):
        check_layout(run, *launch_on(Slurm(fewest=5), 4, 1))


def test_a_sublayer_over_the_network_is_told(file, launch_on):
    run = load_run(file, {"plan.mesh": {"tensor": 2}})
    assert notes(run, launch_on("slurm", 2, 2)[1]) == []
    (told,) = notes(run, launch_on("slurm", 2, 1)[1])
    assert "plan.mesh.tensor = 2 does not divide the 1 processes of a node" in told


@pytest.mark.parametrize(
    ("named", "changes", "says"),
    [
        ("slrum", {}, r"--on: 'slrum' is no cluster: choose slurm, k8s, ssh.*did you mean 'slurm'"),
        ("slurm", {"partitoin": "x"}, r"nothing is called 'partitoin'.*'partition'"),
        ("slurm", {"environment": ["1A"]}, r"environment: should be NAME=VALUE"),
        ("slurm", {"setup": ["a\nb"]}, r"is one line per item"),
        ("slurm", {"partition": "a b"}, r"one word"),
        ("slurm", {"options": ["qos=long"]}, r"options of sbatch"),
        ("ssh", {"hosts": ["-oProxyCommand=x"]}, r"names of machines"),
        ("ssh", {"hosts": ["a", "a"]}, r"names a machine twice: a, a"),
    ],
)
def test_what_a_cluster_is_not_is_refused(named, changes, says):
    with pytest.raises(UserError, match=says):
        cluster_of(named, changes)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (Slurm(minutes=10), r"minutes = 10 end before the 10 minutes that are kept for saving"),
        (Slurm(mounts=("/a:/a",)), r"set image"),
        (Hosts(hosts=("a",)), r"--nodes 2, and hosts names 1 machines"),
        (JobSet(claim="x"), r"needs image: --set image="),
        (JobSet(image="x"), r"needs claim: --set claim="),
    ],
)
def test_what_a_cluster_lacks_is_said_before_a_script_is_written(cluster, says, file, launch_on):
    with pytest.raises(UserError, match=says):
        check_layout(load_run(file), *launch_on(cluster, 2, 1))


def test_a_cluster_may_stand_in_a_file(file):
    Path("mine.toml").write_text('kind = "ssh"\nhosts = ["a", "b"]\nrestarts = 1\n')
    assert cluster_of("mine.toml", {"port": 4000}) == Hosts(hosts=("a", "b"), restarts=1, port=4000)
    Path("mine.toml").write_text('hosts = ["a"]\n')
    with pytest.raises(UserError, match=r"(?s)mine.toml:.*should say its kind"):
        cluster_of("mine.toml", {})


class Deaf(Slurm):
    """Its script does not pass the end on."""

    def script(self, launch: Launch) -> str:
        return super().script(launch).replace("scontrol requeue", ": scontrol requeue")


class Fewer(Slurm):
    """It forgets a word of the run."""

    def script(self, launch: Launch) -> str:
        return super().script(launch).replace("--resume runs/one", "")


class Eager(Slurm):
    """It queues what is done once more."""

    def script(self, launch: Launch) -> str:
        return super().script(launch).replace('if [ -n "$ending" ] && [ "$code" -ne 0 ]', "if true")


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (Deaf(), r"did not queue again after SIGUSR1"),
        (Fewer(), r"torchrun reads another run out of its words"),
        (Eager(), r"queued a run again that was finished"),
    ],
)
def test_a_script_that_does_something_else_is_noticed(cluster, says, launch_on):
    with pytest.raises(RehearsalError, match=says):
        rehearsed(*launch_on(cluster))


def test_the_command_writes_what_it_tried(file, call):
    done = call(
        "launch", str(file), "--nodes", "2", "--gpus", "2", "--on", "slurm", "--set", "minutes=60", "--write", "a.sbatch"
    )
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "torchrun --nnodes 2 --nproc-per-node 2" in words
    assert words.endswith("start it with sbatch a.sbatch")
    assert "#SBATCH --time=1:00:00" in Path("a.sbatch").read_text()
    again = call("launch", str(file), "--nodes", "2", "--gpus", "2", "--write", "a.sbatch")
    assert again.returncode == 2
    assert "a.sbatch is there already" in again.stderr
    wrong = call("launch", "text.txt")
    assert wrong.returncode == 2
    assert "is not the file of a run" in wrong.stderr
    found = json.loads(call("launch", str(file), "--nodes", "1", "--gpus", "2", "--json").stdout)
    assert found["submit"] == "sbatch 'My run.sbatch'"
    assert list(found["nodes"]) == ["node-0"]
