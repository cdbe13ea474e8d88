"""The format of a text, guessed where that is safe."""

import time

import pytest

from scheduler.importers import detect
from scheduler.importers.detect import FORMATS, possible_formats
from tests.core.importers.samples import SAMPLES, has_words, refusal, sample

EXPECTED = {
    "slurm": [
        "slurm/*.conf",
        "slurm/*.yaml",
        "slurm/routetree-case*/*.conf",
        "slurm/topology-conf-examples.txt",
        "cyclecloud-slurm/*topology*.txt",
        "topograph/*.conf",
    ],
    "topograph": ["topograph/*.yaml", "topograph/topologyGraph.json", "topograph/compute*.json"],
    "kubernetes": ["k8s-nodes/k*.yaml", "k8s-nodes/o*.yaml", "k8s-nodes/real*.yaml"],
    "ibnetdiscover": ["topograph/*.out", "superbenchmark/ibnet*", "infiniband_exporter/*"],
    "nccl": ["nccl-topology/*"],
    "nvidia-smi": ["nvidia-smi/*"],
    "csv": ["traces/*/topo.csv", "traces/*/openb_node*.csv", "traces/*/*machine_spec.csv"],
}

NOT_GUESSED = {"knavigator-virtual-nodes-values.yaml"}
"""Nothing in it but its fields says what it is; it is read where the format is named."""


@pytest.mark.parametrize("name", EXPECTED)
def test_samples_of_each_format_are_recognised(name: str) -> None:
    sample("slurm/guide-00.conf")
    found = [p for pattern in EXPECTED[name] for p in sorted(SAMPLES.glob(pattern))]
    assert len(found) >= len(EXPECTED[name])
    wrong = {
        path.name: possible_formats(path.read_bytes())
        for path in found
        if path.name not in NOT_GUESSED and possible_formats(path.read_bytes()) != [name]
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cluster: a\nlevels: [rack, node]\n", "podyard"),
        ("nodes:\n  - {names: 'n[1-2]', type: hgx-h100}\n", "podyard"),
        ('{"levels": ["node"], "nodes": []}', "podyard"),
        ("nodename=n[1-4] Gres=gpu:8\n", "slurm"),
        ('{"kind":"List","items":[]}', "kubernetes"),
        ("- apiVersion: v1\n  kind: Node\n  images:\n  - names:\n    - a\n", "kubernetes"),
        ("host,rack\nn1,r1\n", "csv"),
        ("rack;hostname\n", "csv"),
        ("\ufeffhost,rack\nn1,r1\n", "csv"),
    ],
)
def test_text_is_recognised_by_its_signs(text: str, name: str) -> None:
    assert possible_formats(text) == [name]
    assert possible_formats(text.encode()) == [name]


def test_text_without_signs_is_refused_with_all_formats() -> None:
    found = refusal(lambda: detect.parse("hello"))
    assert has_words(found, "format", *FORMATS)


def test_text_with_signs_of_two_formats_is_refused_with_both() -> None:
    text = "SwitchName=a Nodes=n1\nvendid=0x2c9\n"
    (found,) = refusal(lambda: detect.parse(text))
    assert has_words(found, "several formats", "slurm", "ibnetdiscover")
    assert "kubernetes" not in found


def test_named_format_is_taken_without_looking() -> None:
    inventory = detect.parse("n1: d1\n", format_name="csv")
    assert [record.name for record in inventory.nodes] == ["n1"]
    assert has_words(refusal(lambda: detect.parse("x", format_name="cvs")), "'cvs'", "csv")


def test_both_files_of_slurm_are_one_format() -> None:
    assert detect.parse("SwitchName=a Nodes=n1").levels == ("leaf", "node")
    text = "- topology: t\n  tree:\n    switches:\n      - {switch: a, nodes: n1}\n"
    assert detect.parse(text).levels == ("leaf", "node")


@pytest.mark.parametrize(
    "piece", ["\n", " ", "\t", "GPU0 \n", "GPU0 a ", "- ", "{", '"', "a,", "kind: ", "Switch 1 "]
)
def test_guessing_takes_no_time_even_of_texts_made_to_be_slow(piece: str) -> None:
    started = time.process_time()
    possible_formats(piece * 100_000)
    assert time.process_time() - started < 1.0
