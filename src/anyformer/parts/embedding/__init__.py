"""The two ends of a model: inputs turn tokens, patches and features into vectors, the head turns vectors into logits."""
