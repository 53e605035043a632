"""A small service for tests: a model over bytes, or one with a chat template."""

from __future__ import annotations

from contextlib import contextmanager

from starlette.testclient import TestClient

from anyformer.serving.application import ModelService, application
from anyformer.serving.guard import ServingLimits
from anyformer.serving.memory_of_states import StateMemory
from anyformer.serving.metrics import ServingMetrics
from anyformer.serving.scheduler import Scheduler
from anyformer.serving.served_model import ServedModel
from anyformer.serving.worker import ServingWorker

HERE = "http://127.0.0.1:8000"
LENGTH = 64


def service(model, tokenizer, *, limits=None, waiting=64, grace=30.0, **memory):
    """A service that is not running."""
    held = StateMemory(**{"places": 3, "length": LENGTH, **memory})
    scheduler = Scheduler(held.states(model, held.length), tokenizer, most_waiting=waiting)
    worker = ServingWorker(scheduler, ServingMetrics())
    return ModelService(ServedModel("tiny", model, tokenizer, held.length), worker, limits or ServingLimits(), grace=grace)


@contextmanager
def running(made, **how):
    """A client of a service while it runs."""
    with TestClient(application(made), base_url=HERE, **how) as client:
        yield client
