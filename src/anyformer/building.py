"""`build` of an architecture in any form: a name, a path, a dictionary or the value."""

from anyformer.model import transformer
from anyformer.resolving import resolved

build = resolved(transformer.build)
