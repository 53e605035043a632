"""Attention: a softmax over scores of queries and keys, in every form, and the biases of its scores."""
