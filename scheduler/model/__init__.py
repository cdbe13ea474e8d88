"""Frozen values that check themselves: nodes, jobs, placements, plans."""
