"""Calling the hooks of jobs: where they may be, what is signed, and how they are called."""
