"""The parallel layout of a job: sizes, rank order, communication groups."""
