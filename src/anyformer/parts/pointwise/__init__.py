"""What is done to each element by itself: activations, gates, gains."""
