"""The two ends of a model: what turns tokens, patches and features into vectors, and vectors into logits."""
