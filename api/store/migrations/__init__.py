"""Alembic migrations, shipped with the package so that an installed `podyard` migrates."""
