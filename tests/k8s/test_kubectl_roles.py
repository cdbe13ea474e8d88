"""The real `kubectl` over TLS, with a token of each role: what it may, and what it is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.k8s.battery import POD, QUEUE, VOLCANO
from tests.k8s.kubectl import kubectls
from tests.k8s.secured import As, Secured

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(
        not kubectls(), reason="no kubectl of version 1.27 or newer on PATH or in /usr/bin"
    ),
]

VERSIONS = list(kubectls())
WHO = {"v": "viewer", "s": "submitter", "n": "ann", "g": "agent", "o": "operator", "a": "admin"}
"""Those who may less come first: what is done already is allowed to all."""

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {a: b}\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\n"
JOB = """\
apiVersion: podyard.io/v1
kind: Job
metadata: {name: NAME}
spec: {parallelism: {tp: 8}}
"""
CLASS = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: NAME}
value: 7
"""


@dataclass(frozen=True)
class Case:
    """A command, who may give it, and the question of `auth can-i` that it answers.

    Attributes:
        who: v viewer, s submitter, o operator, a admin, g agent of a1, n a submitter of alpha.
        stdin: `NAME` in it, and in the command, is the caller's.
    """

    command: str
    who: str
    can_i: str = ""
    stdin: str = ""


FEW = (
    Case("get pods -n alpha", "vsoan", "list pods -n alpha"),
    Case("get pods -n beta", "vsoa", "list pods -n beta"),
    Case("get pods -A", "vsoan", "list pods -A"),
    Case("get node a1", "vsoagn"),
    Case("get secrets -n alpha", "soan", "list secrets -n alpha"),
    Case("create -n alpha -f -", "soan", "create jobs.podyard.io -n alpha", JOB),
    Case("create -n beta -f -", "soa", "create jobs.podyard.io -n beta", JOB),
    Case("annotate node a2 NAME=x", "oa", "patch nodes"),
    Case("create -f -", "a", "create priorityclasses", CLASS),
)

ALL = (
    *FEW,
    Case("get nodes", "vsoan", "list nodes"),
    Case("describe node a1", "vsoagn"),
    Case("get queues", "vsoan", "list queues"),
    Case("get events -n alpha", "vsoan", "list events -n alpha"),
    Case("get namespaces", "vsoan", "list namespaces"),
    Case("get pj -A -o wide", "vsoan"),
    Case("get all -n alpha", "vsoan"),
    Case("get pods -n alpha --watch --request-timeout=2s", "vsoan", "watch pods -n alpha"),
    Case("explain job.spec", "vsoagn"),
    Case("api-resources", "vsoagn"),
    Case("apply -n alpha -f -", "soan", "patch configmaps -n alpha", CONFIG),
    Case("apply -n alpha --server-side -f -", "soan", "patch secrets -n alpha", SECRET),
    Case("create -n alpha -f -", "soan", "create pods -n alpha", POD.replace("lone", "p-NAME")),
    Case("create -n alpha -f -", "soan", "", VOLCANO.replace("vc", "v-NAME")),
    Case("label cm common x=NAME --overwrite -n alpha", "soan", "update configmaps -n alpha"),
    Case("delete configmap NAME -n alpha", "soan", "delete configmaps -n alpha"),
    Case("delete pj NAME -n alpha --wait=false", "soan", "delete jobs.podyard.io -n alpha"),
    Case("cordon a3", "oa"),
    Case("drain b4 --ignore-daemonsets --force", "oa"),
    Case("taint nodes b1 NAME=x:NoSchedule", "a"),
    Case("create namespace NAME", "oa", "create namespaces"),
    Case("create -f -", "oa", "create queues", QUEUE.replace("research", "q-NAME")),
    Case("delete queue q-NAME", "oa", "delete queues"),
    Case("create -f - -n beta", "soa", "create configmaps -n beta", CONFIG),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Secured(tmp_path_factory.mktemp("secured")) as made:
        made.load()
        yield made


def wrong(served: Secured, version: str, cases: tuple[Case, ...]) -> Iterator[str]:
    """What did not go as it should, for each role."""
    for mark, name in WHO.items():
        folder = served._folder / f"{name}-{version}"
        kubectl = As(kubectls()[version], served, folder, name)
        mine = f"{name}-{version.replace('.', '-')}"
        for case in cases:
            yield from _wrong(kubectl, case, mine, may=mark in case.who)


def _wrong(kubectl: As, case: Case, name: str, *, may: bool) -> Iterator[str]:
    command = case.command.replace("NAME", name).split()
    done = kubectl(*command, stdin=case.stdin.replace("NAME", name) or None)
    is_forbidden = "(Forbidden)" in done.text or "has the role" in done.text
    if is_forbidden is may:
        yield f"{name}: {case.command}: {'may' if may else 'may not'}: {done.text[:300]}"
    if not may and "has the role" not in done.text:
        yield f"{name}: {case.command}: is not told why: {done.text[:300]}"
    if may and done.code and "--watch" not in case.command:
        yield f"{name}: {case.command}: fails: {done.text[:300]}"
    if case.can_i:
        told = kubectl("auth", "can-i", *case.can_i.split())
        if told.out.startswith("yes") is not may:
            yield f"{name}: auth can-i {case.can_i}: {told.text[:200]}"


def test_kubectl_may_what_the_role_of_its_token_may(served: Secured) -> None:
    assert "\n".join(wrong(served, VERSIONS[-1], FEW)) == ""


def test_kubectl_without_a_token_or_with_another_is_told_to_log_in(
    served: Secured, tmp_path: Path
) -> None:
    nobody = As(kubectls()[VERSIONS[-1]], served, tmp_path, "")
    assert nobody("get", "pods").code == 1  # it asks for a name, and nobody is there to give one
    done = nobody("get", "pods", "--token", "pyd_none")
    assert done.code == 1
    assert "You must be logged in to the server" in done.text


def test_kubectl_says_who_it_is_and_what_it_may(served: Secured, tmp_path: Path) -> None:
    ann = As(kubectls()[VERSIONS[-1]], served, tmp_path, "ann")
    told = ann("auth", "whoami")
    assert all(word in told.out for word in ("ann", "podyard.io:submitter", "alpha")), told.text
    listed = ann("auth", "can-i", "--list", "-n", "alpha")
    pods = next(line for line in listed.out.splitlines() if line.startswith("pods "))
    assert all(verb in pods for verb in ("create", "delete", "list")), listed.text
    other = ann("auth", "can-i", "--list", "-n", "beta")
    assert not any(line.startswith("pods ") for line in other.out.splitlines()), other.text


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_kubectl_may_what_the_role_of_its_token_may(version: str, tmp_path: Path) -> None:
    with Secured(tmp_path) as served:
        served.load()
        root = As(kubectls()[version], served, tmp_path / "root", "admin")
        assert root("create", "configmap", "common", "-n", "alpha").code == 0
        assert "\n".join(wrong(served, version, ALL)) == ""
