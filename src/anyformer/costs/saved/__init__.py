"""What a training step saves for its backward pass, read off the built model."""
