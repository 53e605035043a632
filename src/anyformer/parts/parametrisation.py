"""muP: initial scales, rates and multipliers that follow the width, so that what is good at one width is good at others."""

from __future__ import annotations

from anyformer.describe import Count, Value


class MaximalUpdate(Value):
    """The maximal update parametrisation, relative to a base width (muP, Yang et al. 2022, arXiv 2203.03466, table 8).

    At `base_width` nothing changes. With m the times that a weight has more inputs than at the base, and of Adam:

        inputs and outputs grow     std / sqrt(m), rate / m      matrices of layers
        inputs grow                 std / m, rate / m            routers and other projections to a fixed number of features
        outputs grow, or a vector   as at the base               tables, projections from a fixed number, gains, biases
        a head                      as at the base, logits / m   (also if it is the table of the embedding)
        scores of attention         times E_base / E             1 / d in the place of 1 / sqrt(d)

    with std the initial deviation at the base's shape. The base is the same architecture with D = `base_width`, its networks in
    proportion and its number of heads as it is: a size that is written out, as a head width or a rank, is the same at all
    widths. Weight decay takes the same share at all widths. Factors for the depth, and for Adam's eps, there are none.
    """

    base_width: Count
    """D at which initial values, rates and factors are those that are written."""
