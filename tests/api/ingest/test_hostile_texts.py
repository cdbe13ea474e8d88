"""Texts that are wrong, cut off, odd or hostile: refused with a place, and nothing is written."""

import time
from collections.abc import Iterator

import pytest

from tests.api.http.yard import Yard, problems
from tests.api.ingest.imports import counts, domains, export, load, node, refused, revision
from tests.api.ingest.test_formats import DUMP, MATRIX, MODEL, SYSTEM, TABLE, TREE, kubernetes

SECONDS_MAX = 5.0

LONG = "x" * 253

WRONG = {
    "a cycle of switches": (
        "slurm",
        "SwitchName=a Switches=b\nSwitchName=b Switches=a\n",
        "line 1",
    ),
    "a cycle of switches in a model": (
        "topograph",
        "switches: {a: {switches: [b]}, b: {switches: [a]}}\nblocks: [{switch: a, nodes: [n]}]\n",
        "cycle",
    ),
    "a switch below itself": ("slurm", "SwitchName=a Switches=a Nodes=n1\n", "line 1"),
    "a switch that is not there": ("slurm", "SwitchName=a Switches=nowhere\n", "line 1"),
    "a switch twice": ("slurm", "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "line 2"),
    "a range without an end": ("slurm", "SwitchName=a Nodes=n[1-\n", "line 1"),
    "ten to the eighth nodes": ("slurm", "SwitchName=a Nodes=n[1-100000000]\n", "line 1"),
    "a ring": ("slurm", "RingName=r Nodes=n[1-4]\n", "line 1"),
    "two maps": ("slurm", "SwitchName=a Nodes=n1\nBlockName=b Nodes=n1\n", "line 2"),
    "a key that Slurm does not know": ("slurm", "SwitchName=a Nodes=n1 Colour=red\n", "line 1"),
    "a torus": ("slurm", "- topology: t\n  torus3d: {toruses: []}\n", "line 1"),
    "a node twice": ("csv", "host,rack\na,r1\na,r2\n", "line 3"),
    "a row with too few cells": ("csv", "host,rack\na,r1\nb\n", "line 3"),
    "a name that is none": ("csv", "host,rack\n-,r1\n", "line 2"),
    "too many GPUs": ("csv", "host,gpus\na,1000\n", "line 2"),
    "a table without hosts": ("csv", "rack,row\nr1,w1\n", "line 1"),
    "a node twice in Kubernetes": ("kubernetes", kubernetes("n1", "n1"), "comes twice"),
    "a label that is too long": ("kubernetes", kubernetes("n1", a=LONG), "63"),
    "no node": ("kubernetes", '{"kind": "List", "items": []}', "node"),
    "a dump that ends in a device": (
        "ibnetdiscover",
        DUMP[: DUMP.index('"S-0000000000000001"[2]')],
        "",
    ),
    "a dump of nothing": ("ibnetdiscover", "vendid=0x2c9\n", ""),
    "a document type": ("nccl", "<!DOCTYPE a [<!ENTITY b 'c'>]><system>&b;</system>", "line 1"),
    "XML that is cut off": ("nccl", SYSTEM[:200], "line"),
    "a table without GPUs": ("nvidia-smi", "\tNIC0\nNIC0\t X \n", ""),
    "a GPU that meets nobody": ("nvidia-smi", MATRIX.replace("NV18\tPIX", "NV18"), "line"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_text_is_refused_with_its_place_and_nothing_is_written(
    any_yard: Yard, case: str
) -> None:
    name, text, word = WRONG[case]
    before = revision(any_yard), export(any_yard)
    for dry in ("", "&dry_run=true", "&prune=true"):
        found = refused(any_yard, text, f"format={name}{dry}")
        assert word in str(found), found
    assert (revision(any_yard), export(any_yard)) == before


TEXTS = {
    "slurm": TREE,
    "topograph": MODEL,
    "kubernetes": kubernetes("n1", "n2"),
    "csv": TABLE,
    "ibnetdiscover": DUMP,
    "nccl": SYSTEM,
    "nvidia-smi": MATRIX,
    "sharp": "n1: 0xa1\nSwitchName=s1 Nodes=0xa1\n",
    "podyard": "levels: [node]\nnodes: [{names: a, type: hgx-h100}]\n",
}


def damaged(text: str) -> Iterator[bytes]:
    """A text cut off, in other encodings, and with bytes that no text has."""
    raw = text.encode()
    yield from (raw[: len(raw) * part // 7] for part in range(7))
    yield text.encode("utf-16")
    yield text.encode("utf-16-le")
    yield raw[:20] + "ä".encode("latin-1") + raw[20:]
    yield raw[:20] + b"\xff\xfe" + raw[20:]
    yield raw[:20] + b"\x00" + raw[20:]
    yield raw[:20] + "\u202e".encode() + raw[20:]
    yield raw.replace(b"\n", b"\r\n")
    yield raw.replace(b"\n", b"\r")
    yield b"\xef\xbb\xbf" + raw
    yield raw + raw
    yield raw + b"x" * 100_000
    yield raw.replace(b"n1", b"n" * 300)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("is_named", [True, False])
def test_damaged_text_is_taken_or_refused_but_never_a_failure(
    any_yard: Yard, name: str, *, is_named: bool
) -> None:
    before = revision(any_yard)
    headers = {"Content-Type": "text/plain"}
    for text in damaged(TEXTS[name]):
        query = f"dry_run=true&format={name}" if is_named else "dry_run=true"
        started = time.process_time()
        answer = any_yard.call("POST", f"/v1/inventory?{query}", content=text, headers=headers)
        assert time.process_time() - started < SECONDS_MAX
        if answer.status_code != 200:
            assert problems(answer, 422)
    assert revision(any_yard) == before


@pytest.mark.parametrize("name", TEXTS)
def test_encoding_that_is_not_utf8_is_refused_by_its_line(any_yard: Yard, name: str) -> None:
    raw = TEXTS[name].encode() + "\nä".encode("latin-1")
    found = refused(any_yard, raw, f"format={name}")
    assert "is not UTF-8" in str(found)
    assert f"line {raw.count(bytes([10])) + 1}" in str(found)


def test_body_of_a_hundred_megabytes_is_turned_away(any_yard: Yard) -> None:
    raw = b"vendid=0x2c9\n" * (100_000_000 // 13)
    started = time.process_time()
    answer = any_yard.call(
        "POST", "/v1/inventory", content=raw, headers={"Content-Type": "text/plain"}
    )
    assert problems(answer, 413)
    assert time.process_time() - started < SECONDS_MAX


# -- what is odd and taken all the same -----------------------------------------------------------


def test_link_to_nowhere_is_left_out_with_a_warning(yard: Yard) -> None:
    dump = DUMP.replace("\nCa 1", '[9] "S-00000000000000ff"[1] # "gone" lid 9 4xNDR\n\nCa 1', 1)
    found = load(yard, dump)
    assert found["created"] == 3
    assert "links to nowhere: 'gone'" in str(found["warnings"])


def test_node_in_two_racks_has_no_place_and_is_told(yard: Yard) -> None:
    found = load(yard, "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[3-5]\n", "gpus=8")
    assert all(word in str(found["warnings"]) for word in ("'n3'", "'a'", "'b'"))
    assert node(yard, "n3")["domains"] == {"leaf": None}
    assert domains(yard, "leaf") == {"a": 2, "b": 2}


def test_switch_without_nodes_and_repeated_ranges_are_taken(yard: Yard) -> None:
    text = "SwitchName=a Nodes=n[1-3],n[2-4],n3\nSwitchName=b\nSwitchName=top Switches=a,b\n"
    assert counts(load(yard, text))[0] == 4
    assert domains(yard, "leaf") == {"a": 4}


def test_names_of_253_characters_are_taken_and_told_apart(yard: Yard) -> None:
    text = (
        f"host,block,leaf\n{LONG},{'b' * 253},{'l' * 253}\n{LONG[:-1]}y,{'c' * 253},{'l' * 253}\n"
    )
    load(yard, text, "format=csv&gpus=8")
    assert list(domains(yard, "leaf").values()) == [1, 1]
    assert node(yard, LONG)["gpus"] == 8


def test_path_of_long_labels_is_shortened_and_stays_one_place(yard: Yard) -> None:
    """Four labels of 63 characters make a path that is too long for a name."""
    labels = {
        "topology_kubernetes_io__region": "r" * 63,
        "topology_kubernetes_io__zone": "z" * 63,
        "fabric_topograph_run__tier-2": "c" * 63,
        "fabric_topograph_run__tier-1": "b" * 63,
        "fabric_topograph_run__tier-0": "l" * 63,
    }
    load(yard, kubernetes("n1", "n2", **labels))
    assert list(domains(yard, "leaf").values()) == [2]
    assert all(len(str(name)) <= 253 for name in domains(yard, "leaf"))
