"""Volcano's objects: their rules, and what they are in the words of the core."""
