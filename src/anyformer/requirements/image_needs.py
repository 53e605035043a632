"""What objectives on images ask of an architecture."""

from __future__ import annotations

from anyformer.model import Architecture
from anyformer.requirements.needs import gives_classes, reads


def needs_images(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that reads anything but one image."""
    if architecture.two_inputs or architecture.embedding.rank != 4:
        raise ValueError(f"the {objective} objective gives the model an image, and this model reads {reads(architecture)}")


def needs_cells(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture whose positions are not the squares of one image."""
    if architecture.embedding.cells is None or architecture.latents is not None:
        found = "a latent array reads its patches" if architecture.latents else f"this model reads {reads(architecture)}"
        raise ValueError(f"the {objective} objective needs an output for every patch of an image, and {found}")


def needs_classes_of_patches(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not give a logit per class, of a number of its own, at every position."""
    if not gives_classes(architecture):
        raise ValueError(
            f"the {objective} objective needs a logit per class for every patch: set head = {{outputs = the number of "
            "classes} without a pool"
        )


def needs_features_of_positions(objective: str, architecture: Architecture) -> None:
    """Refuse a head with weights, which an objective that reads the features before it would never train."""
    head = architecture.head
    if head is not None and (head.outputs != "features" or head.transform is not None):
        raise ValueError(
            f"the {objective} objective trains the features of positions, and this architecture has a head that it would leave "
            "untrained: take it out with architecture.head = none"
        )


def needs_velocity(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not give as many numbers for a patch of an image as it has, at every patch."""
    head, patch = architecture.head, architecture.embedding.example(1, 1)
    numbers, found = patch.numel(), architecture.outputs
    if architecture.latents is not None or head is None or head.pool is not None or not isinstance(head.outputs, int):
        raise ValueError(
            f"the {objective} objective predicts every patch of an image: set head = {{outputs = {numbers}}} without a pool"
        )
    if architecture.embedding.check("the images", patch, None) != 1:
        raise ValueError(f"the {objective} objective predicts patches alone: set embedding.class_tokens = 0")
    if found not in (numbers, 2 * numbers):
        raise ValueError(
            f"the {objective} objective predicts the {numbers} numbers of a patch, and head.outputs = {found}: set "
            f"{numbers}, or {2 * numbers} of a model that also gives a variance, which is not trained"
        )


def needs_condition(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not read how noisy its input is."""
    if architecture.output_stack.condition is None:
        stack = list(architecture.stacks)[-1]
        raise ValueError(
            f"the {objective} objective tells the model the time of every image, which it has no condition to read: set "
            f"{stack}.condition = {{}}, and a modulation in its branches"
        )
