"""Attention: softmax over scores of queries and keys, in every form, and what biases its scores."""
