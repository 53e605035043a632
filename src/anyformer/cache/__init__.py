"""What was worked out before, kept by digest in the user's cache directory, or shipped with the package. No torch here."""

from anyformer.cache.code import contents, digest, files
from anyformer.cache.folder import Cache
from anyformer.cache.shipped import ship, shipped

__all__ = ["Cache", "contents", "digest", "files", "ship", "shipped"]
