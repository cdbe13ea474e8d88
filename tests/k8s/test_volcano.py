"""The real `kubectl` with Volcano's manifests, against a real service whose pods are reported."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.k8s.reviews import job, task
from tests.core.importers.samples import SAMPLES, sample
from tests.k8s.kubectl import Kubectl, Served, kubectls, until

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not kubectls(), reason="no kubectl of version 1.27 or newer on PATH or in /usr/bin"
    ),
]

SCRIPT = [
    "examples/job.yaml",
    "examples/integrations-mpi-mpi-example.yaml",
    "examples/task-start-dependency-mpi.yaml",
    "docs/job-minsuccess.yaml",
    "docs/job-policy-events-list.yaml",
    "docs/job-pytorch-plugin.yaml",
]


class Yard:
    """A service, `kubectl`, and what nodes would report."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self.kubectl = Kubectl(list(kubectls().values())[-1], served.url, folder)

    def run(self, *arguments: str, stdin: str | None = None, code: int = 0) -> str:
        result = self.kubectl(*arguments, stdin=stdin)
        assert result.code == code, f"{arguments}: {result.out}{result.err}"
        return result.out + result.err

    def apply(self, *objects: dict[str, Any], code: int = 0) -> str:
        return self.run("apply", "-f", "-", stdin=yaml.safe_dump_all(objects), code=code)

    def get(self, *arguments: str) -> Any:  # noqa: ANN401  # any JSON
        return json.loads(self.run("get", *arguments, "-o", "json"))

    def phase(self, name: str) -> str:
        return str(self.get("vcjob", name)["status"]["state"]["phase"])

    def report(self, state: str) -> None:
        """What the nodes say of all pods that live."""
        for pod in self.served.call("GET", "/v1/pods")[1]["items"]:
            if pod["state"] in ("bound", "running", "terminating"):
                body = {"attempt": pod["attempt"], "state": state}
                body |= {"exit_code": 0} if state == "succeeded" else {}
                path = f"/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status"
                self.served.call("POST", path, body)

    def is_gone(self) -> bool:
        self.report("stopped")
        return not self.get("vcjob")["items"]

    def until_phase(self, name: str, phase: str, reported: str = "") -> None:
        def is_there() -> bool:
            if reported:
                self.report(reported)
            return self.phase(name) == phase

        until(is_there, f"{name} is {phase}")


def test_samples_run_to_their_end_under_kubectl(tmp_path: Path) -> None:
    if not SAMPLES.exists():
        pytest.skip("the samples of volcano are not here")
    with Served(tmp_path) as served:
        yard = Yard(served, tmp_path)
        for name in SCRIPT:
            text = sample(f"volcano/{name}")
            meta = next(yaml.safe_load_all(text))["metadata"]
            yard.run("create", "-f", "-", stdin=text)
            yard.until_phase(meta["name"], "Running", "running")
            yard.until_phase(meta["name"], "Completed", "succeeded")
            yard.run("delete", "vcjob", meta["name"])


def test_volcano_objects_are_handled_as_any_other(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        yard = Yard(served, tmp_path)
        made = job(task(replicas=3, minAvailable=1), minAvailable=1)
        assert "created" in yard.apply(made)
        before = yard.get("vcjob", "train")["spec"]
        yard.apply(made)
        again = yard.get("vcjob", "train")
        assert (again["spec"], again["metadata"]["generation"]) == (before, 1)
        yard.run("diff", "-f", "-", stdin=yaml.safe_dump(made))
        made["spec"]["tasks"][0]["replicas"] = 2
        yard.run("diff", "-f", "-", stdin=yaml.safe_dump(made), code=1)
        assert "configured" in yard.apply(made)
        wrong = json.loads(json.dumps(made))
        wrong["spec"]["queue"] = "nowhere"
        assert "spec.queue" in yard.apply(wrong, code=1)
        yard.run("label", "vcjob", "train", "team=x")
        assert "train" in yard.run("get", "vj", "-l", "team=x", "--no-headers")
        yard.until_phase("train", "Running", "running")
        table = yard.run("get", "vcjob", "train", "-o", "wide").split("\n")
        assert table[0].split() == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE"]
        assert table[1].split()[:4] == ["train", "Running", "1", "2"]
        assert "Running" in yard.run("describe", "vcjob", "train")
        assert "NAME" in yard.run("get", "pg,q,hn")
        assert "highestTierName" in yard.run("explain", "vcjob.spec.networkTopology")
        found = yard.get("pods", "-l", "volcano.sh/job-name=train")["items"]
        assert len(found) == 2
        uid = yard.get("vcjob", "train")["metadata"]["uid"]
        command = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": "train-abortjob-", "namespace": "default"},
            "action": "AbortJob",
            "target": {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "train",
                "uid": uid,
            },
        }
        yard.run("create", "-f", "-", stdin=yaml.safe_dump(command))
        yard.until_phase("train", "Aborted", "stopped")
        command |= {"action": "ResumeJob"}
        yard.run("create", "-f", "-", stdin=yaml.safe_dump(command))
        yard.until_phase("train", "Running", "running")
        yard.run("delete", "vcjob", "train", "--wait=false")
        until(yard.is_gone, "the job is gone")


def test_watch_of_volcano_jobs_follows_their_phases(tmp_path: Path) -> None:
    watch = ("get", "vcjob", "--watch", "--output-watch-events")
    with Served(tmp_path) as served:
        yard = Yard(served, tmp_path)
        with (
            yard.kubectl.running(*watch) as jobs,
            yard.kubectl.running("get", "pg", "-w") as groups,
        ):
            yard.apply(job(minAvailable=2))
            jobs.until(r"ADDED +train +Pending")
            yard.until_phase("train", "Running", "running")
            jobs.until(r"MODIFIED +train +Running +2 +2")
            groups.until(r"train-\S+ +Running +2 +2")
            yard.until_phase("train", "Completed", "succeeded")
            jobs.until(r"MODIFIED +train +Completed")
            groups.until(r"train-\S+ +Completed")
            yard.run("delete", "vcjob", "train")
            jobs.until(r"DELETED +train")


def test_running_service_acts_on_policies_and_times(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        yard = Yard(served, tmp_path)
        policies = [{"event": "PodFailed", "action": "TerminateJob"}]
        yard.apply(job(policies=policies, ttlSecondsAfterFinished=1))
        yard.until_phase("train", "Running", "running")
        pod = served.call("GET", "/v1/pods")[1]["items"][0]
        failed = {"attempt": pod["attempt"], "state": "failed", "exit_code": 3}
        served.call("POST", f"/v1/namespaces/default/pods/{pod['name']}/status", failed)
        until(yard.is_gone, "the job has ended, and its record is gone")
        (event,) = served.call("GET", "/v1/events?kind=job.execute_action")[1]["items"]
        why = f"PodFailed of pod '{pod['name']}' with exit code 3"
        assert event["message"] == f"TerminateJob: {why}"
