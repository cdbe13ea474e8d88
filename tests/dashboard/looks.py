"""Checks of a page's accessibility, run in the page: names, roles, order, contrast."""

from pathlib import Path

FAULTS = (Path(__file__).parent / "looks.js").read_text(encoding="utf-8").partition("\n")[2]
"""A function of no argument that returns what is wrong, each in a line; [] where nothing is."""
