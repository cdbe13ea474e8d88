"""Alembic migrations, shipped with the package so that an installed `podyard` migrates."""

SERVES_FROM = "2026_12_01_2213"
"""The oldest schema whose program may go on using a database of the newest: migrations since then
have only added what that program can do without. A migration that takes something away comes two
releases after the last program that used it, and names itself here."""
