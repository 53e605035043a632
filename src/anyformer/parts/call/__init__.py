"""What one call carries beside the stream: context, what layers share, decode state, noise, reports of experts."""
