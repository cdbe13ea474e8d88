"""Settings: what a file holds goes before the environment, what a flag says before both."""

from pathlib import Path

import pytest

from api.settings import read_settings


def test_url_of_the_database_is_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "url"
    path.write_text("postgresql://podyard:secret@db/podyard\n")
    monkeypatch.setenv("PODYARD_DATABASE_URL", "sqlite:///other.db")
    monkeypatch.setenv("PODYARD_DATABASE_URL_FILE", str(path))
    assert read_settings({}).database_url == "postgresql://podyard:secret@db/podyard"
    given = {"database_url": "sqlite:///given.db"}
    assert read_settings(given).database_url == "sqlite:///given.db"


@pytest.mark.parametrize(("text", "said"), [(None, "cannot be read"), (" \n", "is empty")])
def test_file_without_a_url_is_told_of(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "url"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=f"database_url_file: .*{said}"):
        read_settings({"database_url_file": str(path)})
