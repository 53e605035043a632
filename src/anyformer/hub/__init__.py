"""Models of a hub (Hugging Face's, or another that speaks its protocol): fetched by file, pushed in one commit. No torch."""

from anyformer.hub.fetching import Watch, fetched, has_weights
from anyformer.hub.heads import head
from anyformer.hub.names import FORM, PREFIX, HubError, HubName, is_hub, looks_like_a_model, parsed, pinned, suggested
from anyformer.hub.pushing import Destination, Pushed, check_clean, destination, files_of, outdated, push
from anyformer.hub.wanted import about, check_weights, configuration, model

__all__ = [
    "FORM",
    "PREFIX",
    "Destination",
    "HubError",
    "HubName",
    "Pushed",
    "Watch",
    "about",
    "check_clean",
    "check_weights",
    "configuration",
    "destination",
    "fetched",
    "files_of",
    "has_weights",
    "head",
    "is_hub",
    "looks_like_a_model",
    "model",
    "outdated",
    "parsed",
    "pinned",
    "push",
    "suggested",
]
