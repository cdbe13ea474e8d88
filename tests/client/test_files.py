"""What `apply` and `create` read from files."""

from pathlib import Path

import pytest

from client.cli.files import Content, read_documents
from client.errors import InputError

JOB = "name: a\nparallelism: {tp: 8}\n"
INVENTORY = "cluster: demo\nlevels: [rack, node]\nnodes: []\n"


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_document_is_told_by_its_keys(tmp_path: Path) -> None:
    roles = "name: b\nroles: [{name: r, replicas: 1}]\n"
    names = [write(tmp_path, f"{n}.yaml", t) for n, t in enumerate([JOB, roles, INVENTORY])]
    found = [document.content for document in read_documents(names)]
    assert found == [Content.JOB, Content.JOB, Content.INVENTORY]


def test_single_document_keeps_its_bytes(tmp_path: Path) -> None:
    """So that the service can name the file's own lines."""
    text = "# a comment\n" + INVENTORY
    (document,) = read_documents([write(tmp_path, "i.yaml", text)])
    assert document.raw == text.encode()


def test_file_may_hold_several_documents(tmp_path: Path) -> None:
    name = write(tmp_path, "all.yaml", f"---\n{INVENTORY}---\n{JOB}---\n")
    documents = read_documents([name])
    assert [d.content for d in documents] == [Content.INVENTORY, Content.JOB]
    assert [d.source for d in documents] == [f"{name} document 1", f"{name} document 2"]
    assert documents[0].raw is None


def test_directory_gives_its_yaml_and_json_in_order(tmp_path: Path) -> None:
    write(tmp_path, "b.yml", JOB)
    write(tmp_path, "a.json", '{"name": "a", "roles": []}')
    write(tmp_path, "notes.txt", "not this")
    sources = [Path(document.source).name for document in read_documents([str(tmp_path)])]
    assert sources == ["a.json", "b.yml"]


def test_numbers_are_read_as_yaml_1_2_has_them(tmp_path: Path) -> None:
    """By YAML 1.1 these would be a text, ninety, false, a date and a number in octal."""
    text = JOB + "model: {params: 70e9, t: 1:30, n: no, d: 2026-01-01, z: 010, f: .5, e: 1e3}\n"
    (document,) = read_documents([write(tmp_path, "job.yaml", text)])
    assert document.value["model"] == {
        "params": 70e9,
        "t": "1:30",
        "n": "no",
        "d": "2026-01-01",
        "z": "010",
        "f": 0.5,
        "e": 1000.0,
    }


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "nothing in it"),
        ("# only a comment\n", "nothing in it"),
        ("- a\n- b\n", "not a list"),
        ("hello", "not a text"),
        ("5", "not a single value"),
        ("a: [1", "not YAML: "),
        ("a: 1\n\tb: 2", "not YAML: "),
        ("x: !!python/object/apply:os.system [echo]", "not YAML: "),
        (b"name: \xff\xfe", "not UTF-8 at byte 6"),
        ("kind: Pod\nmetadata: {}\n", "its keys are kind, metadata"),
        ("name: a\n", "neither a job"),
        ("{" * 3_000, "not YAML"),
        ("? {a: 1}\n: 2\n", "not YAML"),
    ],
)
def test_file_that_is_neither_is_refused_with_its_name(
    tmp_path: Path, content: str | bytes, complaint: str
) -> None:
    name = write(tmp_path, "bad.yaml", content)
    with pytest.raises(InputError) as caught:
        read_documents([name])
    assert str(caught.value).startswith(name)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        read_documents([str(tmp_path / "none.yaml")])


def test_directory_without_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file in it ends in \.yaml"):
        read_documents([str(tmp_path)])
