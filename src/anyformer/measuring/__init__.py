"""What is predicted of an architecture beside what the built model does."""
