"""Seconds that a gang's ranks spend talking, from where they are."""
