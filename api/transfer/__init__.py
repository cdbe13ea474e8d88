"""The whole state as a file, and back: `podyard export`, `podyard import`, `podyard restored`."""
