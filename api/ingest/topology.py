"""Text of any format that describes a cluster -> Inventory."""

from collections.abc import Callable, Mapping

from scheduler.errors import InventoryError, Problem
from scheduler.importers import podyard_yaml
from scheduler.model.node import Inventory

FORMATS: Mapping[str, Callable[[bytes], Inventory]] = {"podyard": podyard_yaml.parse}
"""Importers by the name that requests give them."""


def read_inventory(text: bytes, format_name: str) -> Inventory:
    """The inventory that a text describes.

    Raises:
        InventoryError: If there is no such format, or the text is not of it.
    """
    importer = FORMATS.get(format_name)
    if importer is None:
        known = ", ".join(FORMATS)
        raise InventoryError(
            Problem("format", f"found '{format_name[:80]}'; formats that can be read are {known}")
        )
    return importer(text)
