"""Element-wise parts: activations, gates, gains."""
