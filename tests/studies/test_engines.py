"""Trials as Ray tasks and as a Slurm array: the same directories, keys and numbers as side by side.

The packages are extras: where they are missing, a stand-in with their few calls runs the tasks in threads, and what it cannot
show is left to the tests of the packages themselves.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import anyformer as af
from anyformer.describe import UserError
from anyformer.studies.engines import engine_of
from anyformer.studies.process import run
from anyformer.studies.runner import TRIALS


@pytest.fixture
def small(study):
    return study.but(arms={"one_head": study.arms["one_head"]}, base=study.base.but(steps=2), seeds=(1,))


@pytest.fixture
def stand_in(monkeypatch):
    """`ray` and `submitit` in threads of this process, one trial at a time; a trial is trained here."""
    pool, one = ThreadPoolExecutor(2), threading.Lock()
    arrays: list[int] = []

    def task(place, threads):
        with one:
            return run(Path(place))

    ray = ModuleType("ray")
    ray.is_initialized = lambda: True
    ray.remote = lambda function: SimpleNamespace(
        options=lambda **limits: SimpleNamespace(remote=lambda *given: pool.submit(task, *given))
    )

    def waited(tasks, timeout):
        done = wait(tasks, timeout=timeout).done
        return list(done), [each for each in tasks if each not in done]

    ray.wait, ray.get, ray.cancel = waited, Future.result, Future.cancel
    submitit = ModuleType("submitit")

    def map_array(function, places, threads):
        arrays.append(len(places))
        return [pool.submit(task, *given) for given in zip(places, threads, strict=True)]

    submitit.AutoExecutor = lambda folder, cluster: SimpleNamespace(update_parameters=lambda **given: None, map_array=map_array)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    yield arrays
    pool.shutdown()


def alike(one, other, first, second):
    assert [arm.numbers for arm in one.arms] == [arm.numbers for arm in other.arms]
    assert sorted(each.name for each in (first / TRIALS).iterdir()) == sorted(each.name for each in (second / TRIALS).iterdir())


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("engine", ["ray", "slurm"])
def test_a_study_by_an_engine_in_threads_is_that_of_one_process(small, stand_in, tmp_path, engine):
    by_engine = af.compare(small, tmp_path / "there", engine=engine)
    assert stand_in == ([2] if engine == "slurm" else [])  # everything that is due is one array
    here = af.compare(small, tmp_path / "there")  # finds all of it
    alike(here, by_engine, tmp_path / "there", tmp_path / "there")
    assert all(number is not None for arm in here.arms for number in arm.numbers.values())


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="pip install 'anyformer[ray]'")
def test_on_a_local_ray_of_two_processes_the_numbers_are_those_of_one(small, tmp_path):
    import ray

    by_ray = af.compare(small, tmp_path / "ray", engine="ray", options={"num_cpus": 2})
    ray.shutdown()
    alike(by_ray, af.compare(small, tmp_path / "here"), tmp_path / "ray", tmp_path / "here")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("submitit") is None, reason="pip install 'anyformer[slurm]'")
def test_as_an_array_of_local_processes_the_numbers_are_those_of_one(small, tmp_path):
    by_array = af.compare(small, tmp_path / "array", engine="slurm", options={"cluster": "local"})
    alike(by_array, af.compare(small, tmp_path / "here"), tmp_path / "array", tmp_path / "here")


def test_a_job_that_failed_is_a_trial_that_failed(stand_in, tmp_path):
    for engine in ("ray", "slurm"):
        started = engine_of(engine, tmp_path, {})(tmp_path / "nothing", 1, None)
        assert started.wait() == 1


def test_mistakes_are_told_before_any_work(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"no engine 'rya'; did you mean 'ray'"):
        engine_of("rya", tmp_path, {})
    with pytest.raises(UserError, match="and no engine"):
        engine_of(None, tmp_path, {"num_cpus": 2})
    for engine, package in (("ray", "ray"), ("slurm", "submitit")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(UserError, match=rf"pip install 'anyformer\[{engine}\]'"):
            engine_of(engine, tmp_path, {})
