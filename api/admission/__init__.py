"""The door: what is checked before a job is written down."""
