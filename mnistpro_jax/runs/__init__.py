"""What a run leaves on disk, and how it is read again: the one place that knows the format."""
