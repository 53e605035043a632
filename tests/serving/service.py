"""A small service for tests: a model over bytes, or one with a chat template."""

from __future__ import annotations

from contextlib import contextmanager

from starlette.testclient import TestClient

from anyformer.serving.application import ModelService, application
from anyformer.serving.guard import ServingLimits
from anyformer.serving.media import MediaReaders
from anyformer.serving.memory_of_states import StateMemory
from anyformer.serving.metrics import ServingMetrics
from anyformer.serving.reloading import LoadedModels
from anyformer.serving.scheduler import Scheduler
from anyformer.serving.served_model import ServedModel
from anyformer.serving.several_states import SeveralStates
from anyformer.serving.worker import ServingWorker
from anyformer.text.replies import ReplyForm

HERE = "http://127.0.0.1:8000"
LENGTH = 64


def service(
    model, tokenizer, *, limits=None, waiting=64, grace=30.0, replies=None, adapters=None, media=None, sequences=None, **memory
):
    """A service that is not running."""
    held = StateMemory(**{"places": 3, "length": LENGTH, **memory})
    length = held.length or LENGTH
    states = SeveralStates(*LoadedModels(model, adapters or {}, sequences).states(held, length))
    worker = ServingWorker(Scheduler(states, tokenizer, most_waiting=waiting), ServingMetrics())
    served = ServedModel(
        "tiny", model, tokenizer, length, replies or ReplyForm(), adapters or {}, media or MediaReaders(), sequences is None
    )
    return ModelService(served, worker, limits or ServingLimits(), grace=grace)


@contextmanager
def running(made, **how):
    """A client of a service while it runs."""
    with TestClient(application(made), base_url=HERE, **how) as client:
        yield client
