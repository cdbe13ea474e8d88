"""The file: gzip of lines of JSON. A head, the rows of all tables, and a last line with a checksum.

    {"podyard": "export", "format": 1, "schema": ..., "revision": ..., "epoch": ..., "tables": ...}
    ["nodes", "n001", "hgx-h100", ...]
    {"rows": 8123, "sha256": "..."}

The checksum is of all lines before it. It finds what was damaged or changed by accident; it is not
a signature: whoever changes a file on purpose can make another.
"""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from api.store.errors import StartupError
from api.store.export import Head, Value

FORMAT = 1
"""Of this layout of lines; what is in the rows goes by the schema."""

LINE_BYTES_MAX = 512 * 1024 * 1024
"""The longest is a copy of a world in the decision log; that of 100,000 nodes has some 60 MB."""

LEVEL = 6
"""Of gzip: its default."""


class ArchiveError(StartupError):
    """The file cannot be read or written, or is not what `podyard export` wrote."""


def write_archive(path: Path, head: Head, rows: Iterable[tuple[str, list[Value]]]) -> int:
    """Write a file, whole or not at all, that only its owner may read; returns how many rows.

    Raises:
        ArchiveError: If it cannot be written.
    """
    draft = path.with_name(f"{path.name}.part-{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            # Without a time of its own: the same state is the same file.
            with gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as packed:
                count = _write_lines(packed, head, rows)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise ArchiveError(f"cannot write '{path}': {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return count


class Archive:
    """A file that is open to be read, as often as one likes.

    Raises:
        ArchiveError: Here, and from `rows`: if it is not whole and as it was written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ArchiveError(f"cannot read '{path}': {error.strerror or error}") from None
        try:
            self.head = self._read_head(next(self._lines(), b""))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def rows(self) -> Iterator[tuple[str, list[object]]]:
        """All rows with the names of their tables; the end is reached only if all is right."""
        digest = hashlib.sha256()
        left = {name: count for name, count in self.head.counts.items() if count}
        lines = self._lines()
        digest.update(next(lines))
        for count, line in enumerate(lines):
            if not left:
                self._check_end(line, count, digest.hexdigest())
                break
            digest.update(line)
            name, *row = self._row(line)
            expected = next(iter(left))
            if name != expected:
                raise self._changed(f"line {count + 2} is of '{name}'; '{expected}' comes next")
            if len(row) != len(self.head.columns[expected]):
                raise self._changed(f"line {count + 2} has {len(row)} values")
            left[expected] -= 1
            if not left[expected]:
                del left[expected]
            yield expected, row
        else:
            raise self._cut()
        if next(lines, None) is not None:
            raise self._changed("there is more after its last line")

    def check(self) -> None:
        """Read it to the end."""
        for _ in self.rows():
            pass

    def _lines(self) -> Iterator[bytes]:
        self._file.seek(0)
        try:
            with gzip.GzipFile(fileobj=self._file, mode="rb") as packed:
                while line := packed.readline(LINE_BYTES_MAX):
                    if not line.endswith(b"\n"):
                        raise self._cut()
                    yield line
        except EOFError:
            raise self._cut() from None
        except gzip.BadGzipFile as error:
            if "CRC" in str(error):
                raise self._changed("its bytes are not those that were written") from None
            raise self._foreign() from None
        except (zlib.error, OSError) as error:
            raise self._changed(str(error)) from None

    def _read_head(self, line: bytes) -> Head:
        try:
            said = json.loads(line)
            if said["podyard"] != "export":
                raise self._foreign()
            if said["format"] != FORMAT:
                raise ArchiveError(
                    f"'{self._path}' is of format {said['format']!r}, this program knows format "
                    f"{FORMAT}; use the version of podyard that wrote it"
                )
            tables = said["tables"].items()
            return Head(
                schema=str(said["schema"]),
                revision=int(said["revision"]),
                epoch=int(said["epoch"]),
                counts={str(name): int(table["rows"]) for name, table in tables},
                columns={str(name): tuple(table["columns"]) for name, table in tables},
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._foreign() from None

    def _row(self, line: bytes) -> list[object]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise self._changed("a line is not JSON") from None
        if isinstance(row, dict):
            raise self._changed("it ends before all rows that it speaks of")
        if not isinstance(row, list) or not row:
            raise self._changed("a line is not a row")
        return row

    def _check_end(self, line: bytes, count: int, checksum: str) -> None:
        try:
            end = json.loads(line)
            is_right = end["rows"] == count and end["sha256"] == checksum
        except (ValueError, TypeError, KeyError, RecursionError):
            is_right = False
        if not is_right:
            raise self._changed("its checksum is another")

    def _cut(self) -> ArchiveError:
        return ArchiveError(f"'{self._path}' is cut off: its end is missing")

    def _changed(self, what: str) -> ArchiveError:
        return ArchiveError(f"'{self._path}' was damaged or changed after it was written: {what}")

    def _foreign(self) -> ArchiveError:
        return ArchiveError(f"'{self._path}' was not written by `podyard export`")


def _write_lines(
    file: IO[bytes] | gzip.GzipFile, head: Head, rows: Iterable[tuple[str, list[Value]]]
) -> int:
    digest = hashlib.sha256()
    count = 0

    def write(value: object) -> None:
        line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        file.write(line)

    write(
        {
            "podyard": "export",
            "format": FORMAT,
            "schema": head.schema,
            "revision": head.revision,
            "epoch": head.epoch,
            "tables": {
                name: {"rows": rows_of, "columns": head.columns[name]}
                for name, rows_of in head.counts.items()
            },
        }
    )
    for name, row in rows:
        write([name, *row])
        count += 1
    checksum = digest.hexdigest()
    write({"rows": count, "sha256": checksum})
    return count


def _sync_folder(folder: Path) -> None:
    """The new name is durable as well."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
