"""What one call carries beside the stream: the context of a layer, decode state, noise, reports of experts."""
