"""An architecture as a page shows it: its figures, its parts, its diagram and masks as plain data, and the local server."""
