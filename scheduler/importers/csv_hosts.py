"""Host lists as tables (CSV, semicolons, tabs, or `host: domain`) -> Inventory."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.importers.domain_levels import (
    DOMAIN_LEVEL,
    Columns,
    Described,
    inventory_of_domains,
    scoped,
)
from scheduler.importers.fields import place_problem
from scheduler.importers.hostlist import NAMES_MAX
from scheduler.importers.machines import NAMELESS_GPU, Machine, gpu_count_problem
from scheduler.importers.options import DEFAULTS, RESERVED_LEVELS, Options, check_nodes
from scheduler.importers.refusals import Refusals, refuse
from scheduler.importers.yaml_text import decode
from scheduler.model.node import Inventory
from scheduler.model.resources import Resources
from scheduler.topology.places import listed

HOST, GPU_MODEL, GPUS = "host", "gpu model", "gpus"

LEVEL_COLUMNS = {
    "region": ("region",),
    "zone": ("zone", "datacenter", "dc"),
    "core": ("core", "dsw"),
    "block": ("block", "spine", "psw"),
    "leaf": ("leaf", "tor", "asw", "switch"),
    "rack": ("rack", "cabinet"),
}
"""Level -> columns that name its domains, outermost first. DSW, PSW and ASW are the core,
aggregation and access switches of Alibaba's networks."""

OTHER_COLUMNS = {
    "host": (HOST, 1),
    "hostname": (HOST, 1),
    "node": (HOST, 1),
    "node_name": (HOST, 1),
    "machine": (HOST, 1),
    "sn": (HOST, 1),
    "ip": (HOST, 1),
    "model": (GPU_MODEL, 1),
    "gpu_model": (GPU_MODEL, 1),
    "gpu_type": (GPU_MODEL, 1),
    "gpu": (GPUS, 1),
    "gpus": (GPUS, 1),
    "gpu_count": (GPUS, 1),
    "gpu_capacity_num": (GPUS, 1),
    "cap_gpu": (GPUS, 1),
    "cpu_milli": ("cpu", 1),
    "cpus": ("cpu", 1000),
    "cpu_num": ("cpu", 1000),
    "cap_cpu": ("cpu", 1000),
    "memory_mib": ("memory", 1),
    "memory_gib": ("memory", 1024),
    "cap_mem": ("memory", 1024),
    "accelerator": (DOMAIN_LEVEL, 1),
    "nvlink": (DOMAIN_LEVEL, 1),
    "clusteruuid": (DOMAIN_LEVEL, 1),
}
"""Other columns: what they tell, and by what their numbers are multiplied."""

DELIMITERS = (",", ";", "\t", "|")

_NUMBER_MAX = 10**12
_COLUMNS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class _Column:
    """What a column tells: a role of `OTHER_COLUMNS` or the name of a level."""

    index: int
    role: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    cells: Mapping[str, str]


def parse(
    text: str | bytes, options: Options = DEFAULTS, *, columns: Mapping[str, str] | None = None
) -> Inventory:
    """The inventory that a table of hosts describes; a domain's identity is its path.

    Args:
        columns: Name of a column -> `host`, `gpu model`, `gpus`, `cpu`, `memory`, `accelerator`, or
            the name of a level; levels are nested in the order given. By default what
            `LEVEL_COLUMNS` and `OTHER_COLUMNS` say, in any case.

    Raises:
        InventoryError: If no column names hosts, a host comes twice, or a cell is wrong.
    """
    options.check()
    refusals = Refusals()
    decoded = decode(text)
    lines = decoded.splitlines()
    first = next((line for line in lines if line.strip()), "")
    if not first:
        raise refuse("", "the table is empty; its first line names the columns")
    if ": " in first and not any(mark in first for mark in DELIMITERS):
        rows = _pairs(lines, refusals)
        used = [_Column(0, HOST), _Column(1, DOMAIN_LEVEL)]
        levels: tuple[str, ...] = ()
        unused: list[str] = []
    else:
        delimiter = max(DELIMITERS, key=first.count)
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        header = _header(reader)
        used, levels, unused = _columns(header, columns)
        rows = _rows(reader, used, len(header), refusals)
    return _inventory(rows, used, levels, options, refusals, unused)


def _pairs(lines: Sequence[str], refusals: Refusals) -> Iterator[_Row]:
    for number, line in enumerate(lines, 1):
        host, colon, domain = (part.strip() for part in line.partition(":"))
        if colon and host and domain:
            yield _Row(number, {HOST: host, DOMAIN_LEVEL: domain})
        elif line.strip():
            refusals.add("", f"expected `host: domain`, found '{line[:60]}'", line=number)


def _header(reader: "Iterator[list[str]]") -> list[str]:
    try:
        header = next((row for row in reader if any(cell.strip() for cell in row)), [])
    except csv.Error as error:
        raise refuse("", f"the first line is no table's: {error}") from error
    if len(header) > _COLUMNS_MAX:
        raise refuse("", f"the table has {len(header)} columns; at most {_COLUMNS_MAX} are allowed")
    return [cell.strip() for cell in header]


def _columns(
    header: Sequence[str], wanted: Mapping[str, str] | None
) -> tuple[list[_Column], tuple[str, ...], list[str]]:
    """The columns that are used, the levels outermost first, and the columns that are not used."""
    by_name: dict[str, int] = {}
    for index, name in enumerate(header):
        if name.lower() in by_name:
            raise refuse(name[:60], "two columns have this name", line=1)
        by_name[name.lower()] = index
    if wanted is not None:
        roles = {name.lower(): (role, 1) for name, role in wanted.items()}
        missing = [name for name in wanted if name.lower() not in by_name]
        if missing:
            raise refuse("columns", f"no column '{missing[0]}'; there are {_shown(header)}", line=1)
        known = {role for role, _ in OTHER_COLUMNS.values()}
        levels = tuple(dict.fromkeys(role for role in wanted.values() if role not in known))
        if set(levels) & set(RESERVED_LEVELS):
            raise refuse("columns", f"a level cannot be named {', '.join(levels)}")
    else:
        roles = dict(OTHER_COLUMNS)
        for level, aliases in LEVEL_COLUMNS.items():
            roles |= dict.fromkeys(aliases, (level, 1))
        levels = tuple(LEVEL_COLUMNS)
    used: dict[str, _Column] = {}
    for name, index in by_name.items():
        if name in roles and roles[name][0] not in used:
            used[roles[name][0]] = _Column(index, *roles[name])
    if HOST not in used:
        names = [name for name, (role, _) in OTHER_COLUMNS.items() if role == HOST]
        raise refuse(
            "",
            f"no column names the hosts; there are {_shown(header)}, and expected is one of "
            f"{', '.join(names)}",
            line=1,
        )
    unused = [header[i] for i in by_name.values() if i not in {c.index for c in used.values()}]
    return list(used.values()), tuple(level for level in levels if level in used), unused


def _shown(header: Sequence[str]) -> str:
    return listed("column", [name[:40] for name in header])


def _rows(
    reader: "Iterator[list[str]]", used: Sequence[_Column], width: int, refusals: Refusals
) -> Iterator[_Row]:
    line = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            refusals.add("", str(error), line=line + 1)
            return
        if row is None:
            return
        line = getattr(reader, "line_num", line + 1)
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != width:
            refusals.add("", f"has {len(row)} cells; the first line has {width}", line=line)
            continue
        yield _Row(line, {column.role: row[column.index].strip() for column in used})


def _inventory(
    rows: Iterator[_Row],
    used: Sequence[_Column],
    levels: Sequence[str],
    options: Options,
    refusals: Refusals,
    unused: Sequence[str],
) -> Inventory:
    columns: Columns = {level: [] for level in levels}
    nodes: list[Described] = []
    line_of: dict[str, int] = {}
    domain_of: dict[str, str] = {}
    roles = {column.role: column for column in used}
    for row in rows:
        host = row.cells[HOST]
        if host in line_of:
            message = f"host '{host[:60]}' is on lines {line_of[host]} and {row.line}; it has one"
            refusals.add(HOST, message, line=row.line)
        line_of[host] = row.line
        if len(nodes) >= NAMES_MAX:
            raise refuse("", f"more than {NAMES_MAX} hosts", line=row.line)
        check_nodes([host], HOST, refusals, line=row.line)
        nodes.append(Described(host, _machine(row, roles, refusals)))
        for level in levels:
            columns[level].append(_place(row, level, refusals))
        if row.cells.get(DOMAIN_LEVEL):
            domain_of[host] = _place(row, DOMAIN_LEVEL, refusals) or ""
    refusals.raise_if_any()
    if not nodes:
        raise refuse("", "the table has no hosts")
    paths, warnings = scoped(columns)
    if unused:
        warnings.append(f"{_shown(unused)} not used")
    return inventory_of_domains(nodes, paths, domain_of, options, warnings=warnings)


def _place(row: _Row, level: str, refusals: Refusals) -> str | None:
    name = row.cells[level]
    if not name:
        return None
    problem = place_problem(name)
    if problem is not None:
        refusals.add(level, problem, line=row.line)
    return name


def _machine(row: _Row, roles: Mapping[str, _Column], refusals: Refusals) -> Machine:
    gpus = _number(row, roles.get(GPUS), refusals)
    if gpus is not None:
        problem = gpu_count_problem(gpus)
        if problem is not None:
            refusals.add(GPUS, problem, line=row.line)
    model = row.cells.get(GPU_MODEL, "")[:100] if gpus else ""
    capacity = Resources(
        cpu_milli=_number(row, roles.get("cpu"), refusals) or 0,
        memory_mib=_number(row, roles.get("memory"), refusals) or 0,
    )
    return Machine(model or (NAMELESS_GPU if gpus else ""), gpus, capacity)


def _number(row: _Row, column: _Column | None, refusals: Refusals) -> int | None:
    """The number in a cell times the column's factor; None where there is no column or value."""
    if column is None or not row.cells[column.role]:
        return None
    text = row.cells[column.role]
    try:
        number = round(float(text) * column.factor)
    except (ValueError, OverflowError):
        number = -1
    if not 0 <= number <= _NUMBER_MAX:
        refusals.add(column.role, f"'{text[:40]}' is no number of at least 0", line=row.line)
        return None
    return number
