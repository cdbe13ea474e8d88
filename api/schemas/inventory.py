"""Imports of an inventory."""

from api.schemas.common import Strict


class Imported(Strict):
    """What an import changed, in nodes; with `dry_run`, what it would have changed.

    `kept` nodes would have gone but hold live pods; a warning names each.
    """

    created: int
    updated: int
    unchanged: int
    removed: int
    kept: int
    warnings: list[str]
    revision: int
