"""The leader and its loop."""
