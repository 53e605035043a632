"""The towers for images of composites: their encoders and projectors, and the composites that are read whole."""
