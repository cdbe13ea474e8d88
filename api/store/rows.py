"""The types of rows and selects whose columns are read by name."""

from typing import Any, TypeAlias

from sqlalchemy import Row, Select

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
AnySelect: TypeAlias = Select[*tuple[Any, ...]]
