"""The two ends of a model: embeddings of tokens, patches and features, and the head that makes logits."""
