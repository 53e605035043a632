"""What every objective requires of an architecture, asked of what it declares: without torch, before any work."""
