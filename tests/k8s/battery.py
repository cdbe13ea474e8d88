"""Every command of the battery, in the order in which a person would meet them."""

import http.server
import json
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.k8s.kubectl import Hands, Kubectl, Result, Served

JOB = """\
apiVersion: podyard.io/v1
kind: Job
metadata:
  name: llama
  labels: {team: x}
spec:
  parallelism: {tp: 8, dp: 2}
  priority: 10
  topology: [{group: job, within: leaf, mode: required}]
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: lone, labels: {app: a}}
spec:
  containers:
  - {name: main, image: none, resources: {limits: {nvidia.com/gpu: "2"}}}
"""
VOLCANO = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: vc}
spec:
  minAvailable: 2
  schedulerName: volcano
  queue: default
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: main, image: none, resources: {limits: {nvidia.com/gpu: "4"}}}
"""
QUEUE = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 2, reclaimable: true}
"""


@dataclass(slots=True)
class Row:
    """One command and what came of it.

    Attributes:
        why: Empty when all was as it should be.
    """

    section: str
    command: str
    why: str = ""


@dataclass(slots=True)
class Battery:
    """Runs commands one after the other and notes how each went."""

    kubectl: Kubectl
    served: Served
    rows: list[Row] = field(default_factory=list)
    section: str = ""

    def file(self, name: str, text: str) -> str:
        """A manifest by its name."""
        (self.kubectl.folder / name).write_text(text)
        return name

    def run(
        self,
        command: str,
        *has: str,
        code: int = 0,
        stdin: str | None = None,
        env: dict[str, str] | None = None,
        patiently: bool = False,
    ) -> Result:
        """Run a command; it must end with the code, and print something like each of `has`.

        Args:
            patiently: Run it until it does; what it shows is about to come.
        """
        result = Result(-1, "", "")

        def once() -> str:
            nonlocal result
            result = self.kubectl(*shlex.split(command), stdin=stdin, env=env)
            if result.code != code:
                return f"ended with {result.code}: {result.text[-400:]}"
            missing = [p for p in has if not re.search(p, result.text, re.MULTILINE)]
            return f"no {missing[0]!r} in: {result.text[-600:]}" if missing else ""

        why = once()
        for _ in range(100 if patiently and why else 0):
            threading.Event().wait(0.1)
            why = once()
            if not why:
                break
        shown = f"{command} <<< ..." if stdin is not None else command
        self.rows.append(Row(self.section, shown, why))
        return result


def run_all(kubectl: Kubectl, served: Served) -> list[Row]:
    """The whole battery; a row for each command."""
    battery = Battery(kubectl, served)
    with Hands(served), hook() as (url, asked):
        for section in (_what_there_is, _create, _get, _describe, _change, _refusals, _watch):
            battery.section = section.__name__.strip("_").replace("_", " ")
            section(battery)
        battery.section = "nodes"
        _nodes(battery, url, asked)
        battery.section = "delete"
        _delete(battery)
    return battery.rows


def run_few(kubectl: Kubectl, served: Served) -> list[Row]:
    """What people type most, in a few seconds."""
    battery = Battery(kubectl, served, section="few")
    with Hands(served):
        _few(battery)
    return battery.rows


def _few(b: Battery) -> None:
    b.run("get nodes", r"^a1 +Ready")
    b.run(f"apply -f {b.file('job.yaml', JOB)}", r"job\.podyard\.io/llama created")
    b.run("wait job.podyard.io/llama --for=condition=Running --timeout=20s", "condition met")
    b.run("get pods -o wide", r"^llama-0 +1/1 +Running .* a\d")
    b.run("apply -f job.yaml", "llama unchanged")
    b.run("describe job.podyard.io llama", "Parallelism", "Bound +")
    b.run("cordon a4", "node/a4 cordoned")
    b.run("delete -f job.yaml --timeout=30s", "llama.* deleted")
    b.run("get pods", "No resources found")


def _what_there_is(b: Battery) -> None:
    b.run("version", r"Server Version: .*v1\.")
    b.run("api-versions", r"^podyard\.io/v1$", r"^batch\.volcano\.sh/v1alpha1$", "^v1$")
    b.run("api-resources", r"jobs +pj", r"jobs +vcjob", r"queues +q", r"hypernodes +hn")
    b.run("get nodes", r"^a1 +Ready")
    b.run("explain job.spec.parallelism", "Sizes of the parallel axes", r"tp")
    b.run("explain pod.spec", "containers")
    b.run("explain vcjob.spec --api-version=batch.volcano.sh/v1alpha1", "minAvailable")
    b.run("auth can-i create pods", "^yes")
    b.run("auth can-i --list", r"\*\.\*")
    b.run("get --raw /api/v1/nodes/a1", '"kind":"Node"')
    b.run("get --raw /version", '"gitVersion"')


def _create(b: Battery) -> None:
    b.run(f"create -f {b.file('job.yaml', JOB)} --dry-run=server", "created .server dry run")
    b.run("get jobs.podyard.io", "No resources found")
    b.run("create -f job.yaml", r"job\.podyard\.io/llama created")
    b.run("create -f job.yaml", "AlreadyExists", code=1)
    b.run("create -f -", "pod/lone created", stdin=POD)
    b.run("create namespace team-a", "namespace/team-a created")
    b.run("create configmap settings --from-literal=a=b", "configmap/settings created")
    b.run("create secret generic key --from-literal=a=b", "secret/key created")
    b.run("create serviceaccount runner", "serviceaccount/runner created")
    b.run("create priorityclass urgent --value=100", "priorityclass.scheduling.k8s.io/urgent")
    b.run(f"apply -f {b.file('vc.yaml', VOLCANO)}", r"job\.batch\.volcano\.sh/vc created")
    b.run(f"apply -f {b.file('queue.yaml', QUEUE)}", "queue.scheduling.volcano.sh/research created")
    b.run("wait job.podyard.io/llama --for=condition=Running --timeout=20s", "condition met")
    b.run("wait pod/lone --for=jsonpath={.status.phase}=Running --timeout=20s", "condition met")


def _get(b: Battery) -> None:
    b.run("get pods", r"^llama-0 +1/1 +Running", r"^lone +1/1 +Running")
    b.run("get pods -o wide", r"^llama-0 .* a\d", "NOMINATED NODE")
    b.run("get pods -o name", "^pod/llama-0$")
    b.run("get pod lone -o json", '"kind": "Pod"')
    b.run("get pod lone -o yaml", "^kind: Pod$")
    b.run("get pod lone -o jsonpath={.spec.nodeName}", r"^[ab]\d$")
    b.run("get pods -o custom-columns=N:.metadata.name,W:.spec.nodeName", r"^llama-0 +a\d")
    b.run("get pods -A", r"^default +lone")
    b.run("get pods --show-labels", "app=a")
    b.run("get pods -L app", r"^lone .* a$")
    b.run("get pods -l app=a", "^lone")
    b.run("get pods -l 'app in (b,c),!x'", "No resources found")
    b.run("get nodes -l zone=east", "^b1")
    b.run("get nodes --field-selector metadata.name=a1", "^a1")
    b.run("get pods --field-selector status.phase=Running", "^lone")
    b.run("get nodes --sort-by=.metadata.name", "^a1")
    b.run("get nodes --chunk-size=3", "^a1", "^b4")
    b.run("get jobs", r"^llama +running")
    b.run("get vcjob", r"^vc ")
    b.run("get jobs.podyard.io,nodes", "^job.podyard.io/llama", "^node/a1")
    b.run("get all", "^pod/llama-0", "^job.podyard.io/llama")
    b.run("get queues", "^default", "^research")
    b.run("get hypernodes", "^NAME")
    b.run("get podgroups", "^vc-")
    b.run("get namespaces", "^default +Active", "^team-a +Active")
    b.run("get pod nope --ignore-not-found", "^$")
    b.run("events", "Bound +Job/llama")
    b.run("events --for job/llama", "Bound")
    b.run("get events --sort-by=.lastTimestamp", "Submitted +job/llama")


def _describe(b: Battery) -> None:
    b.run("describe node a1", "Non-terminated Pods", "nvidia.com/gpu: +8")
    b.run("describe pod llama-0", "Controlled By: +Job/llama", "Node: +a")
    b.run("describe job.podyard.io llama", "Parallelism", "Bound +")
    b.run("describe vcjob vc", "API Version: +batch.volcano.sh")
    b.run("describe queue research", "Weight: +2")
    b.run("describe hypernode", "HyperNode")
    b.run("describe namespace team-a", "Status: +Active")


def _change(b: Battery) -> None:
    b.run("apply -f job.yaml", "llama configured")
    b.run("apply -f job.yaml", "llama unchanged")
    b.file("more.yaml", JOB.replace("priority: 10", "priority: 20"))
    b.run("diff -f more.yaml", r"^\+  priority: 20", code=1)
    b.run("apply -f more.yaml --dry-run=server", "server dry run")
    b.run("get job llama -o jsonpath={.spec.priority}", "^10$")
    b.run("apply -f more.yaml", "llama configured")
    b.run("get job llama -o jsonpath={.spec.priority}", "^20$")
    b.run("apply -f more.yaml --server-side", "serverside-applied")
    b.run("apply -f more.yaml --server-side --field-manager=other", "serverside-applied")
    b.file("most.yaml", JOB.replace("priority: 10", "priority: 30"))
    other = "apply -f most.yaml --server-side --field-manager=other"
    b.run(other, "conflict", r"\.spec\.priority", code=1)
    b.run(f"{other} --force-conflicts", "serverside-applied")
    b.run("""patch job llama --type=merge -p '{"spec":{"priority":31}}'""", "patched")
    json_patch = '[{"op":"replace","path":"/spec/priority","value":32}]'
    b.run(f"patch job llama --type=json -p '{json_patch}'", "patched")
    b.run("""patch pod lone -p '{"metadata":{"labels":{"x":"y"}}}'""", "patched")
    editor = {"KUBE_EDITOR": "sed -i 's/priority: 32$/priority: 33/'"}
    b.run("edit job.podyard.io llama", "edited", env=editor)
    b.run("get job llama -o jsonpath={.spec.priority}", "^33$")
    b.run("label job llama stage=one", "labeled")
    b.run("label pod llama-0 z=1", "labeled")
    b.run("label pods --all checked=yes", "llama-0 labeled", "lone labeled")
    b.run("label job llama stage-", "unlabeled")
    b.run("annotate job llama note='seen by me'", "annotate")
    b.run("apply -f -", "pod/lone configured", stdin=POD.replace("app: a", "app: b"))
    b.run("get pods -l app=b", "^lone")
    job = b.kubectl("get", "job", "llama", "-o", "json").out
    changed = json.loads(job)
    changed["spec"]["priority"] = 34
    b.run("replace -f -", "replaced", stdin=json.dumps(changed))
    b.run("replace -f -", "the object has been modified", code=1, stdin=json.dumps(changed))


def _refusals(b: Battery) -> None:
    b.run("get pod nope", r'pods "nope" not found', code=1)
    b.run("get nonsense", "the server doesn't have a resource type", code=1)
    b.run("get pods --field-selector spec.what=x", "not supported", code=1)
    wrong = JOB.replace("  priority: 10", "  priority: 10\n  nosuchfield: 1").replace(
        "llama", "wrong"
    )
    b.run("create -f -", 'unknown field "spec.nosuchfield"', code=1, stdin=wrong)
    b.run("create -f - --validate=warn", "wrong created", stdin=wrong)
    b.run("delete job wrong", "deleted")
    bad = JOB.replace("tp: 8", "tp: many").replace("llama", "wrong")
    b.run("create -f - --validate=false", r"spec\.parallelism\.tp", code=1, stdin=bad)
    b.run(
        """patch job llama --type=merge -p '{"spec":{"rails":"required"}}'""",
        r"spec\.rails.*immutable",
        code=1,
    )
    b.run("""patch job llama -p '{"spec":{"priority":1}}'""", "not supported", code=1)
    b.run("create -f -", "unsupported|no matches for kind", code=1, stdin=JOB.replace("/v1", "/v9"))


def _watch(b: Battery) -> None:
    with (
        b.kubectl.running("get", "pods", "-w") as pods,
        b.kubectl.running("get", "pod", "lone", "-w", "-o", "name") as one,
        b.kubectl.running("events", "--watch") as events,
    ):
        pods.until("lone")
        one.until("pod/lone")
        events.until("llama")
        b.run("label pod lone seen=now", "labeled")
        b.run("create -f -", "second created", stdin=POD.replace("lone", "second"))
        for name, seen, pattern in (
            ("get pods -w", pods, r"second +1/1 +Running"),
            ("get pod lone -w -o name", one, r"(pod/lone\s+){2}"),
            ("events --watch", events, r"Running +Job/second"),
        ):
            why = _awaited(lambda seen=seen, pattern=pattern: seen.until(pattern))
            b.rows.append(Row(b.section, name, why))
        b.run("delete pod second", "deleted")


def _awaited(wait: object) -> str:
    assert callable(wait)
    try:
        wait()
    except AssertionError as error:
        return str(error)
    return ""


def _nodes(b: Battery, url: str, asked: list[str]) -> None:
    b.run("label node a1 role=train", "labeled")
    b.run("annotate node a1 note=hot", "annotate")
    b.run("get nodes -l role=train", "^a1")
    b.run("cordon a4", "node/a4 cordoned")
    b.run("get node a4", "^a4 +Ready,SchedulingDisabled")
    b.run("uncordon a4", "node/a4 uncordoned")
    b.run("taint node a4 spare=yes:NoSchedule", "tainted")
    b.run("describe node a4", "Taints: +spare=yes:NoSchedule")
    b.run("taint node a4 spare-", "untainted")
    gang = JOB.replace("llama", "gang") + f"  checkpoint: {{hook: {url!r}, grace_s: 20}}\n"
    b.run("create -f -", "gang created", stdin=gang)
    b.run("wait job.podyard.io/gang --for=condition=Running --timeout=20s", "condition met")
    node = b.kubectl("get", "pod", "gang-0", "-o", "jsonpath={.spec.nodeName}").out
    plain = "drain NODE --ignore-daemonsets --force"
    b.run(f"drain {node} --dry-run=server --ignore-daemonsets --force", "drained .server dry run")
    b.run("get pod gang-0", r"gang-0 +1/1 +Running +0")
    b.run(f"drain {node} --ignore-daemonsets --force --timeout=40s", f"node/{node} drained")
    b.rows[-1].command = f"{plain} --timeout=40s"
    b.rows[-3].command = f"{plain} --dry-run=server"
    b.run("get pods -o wide", rf"^gang-0 +1/1 +Running +1 .* (?!{node}\b)[ab]\d", patiently=True)
    b.run(f"get pods --field-selector spec.nodeName={node}", "No resources found")
    b.rows[-1].command = "get pods --field-selector spec.nodeName=NODE"
    why = "" if "checkpoint.requested" in asked else f"no checkpoint was asked for, only {asked}"
    b.rows.append(Row(b.section, "(the hook of the gang was asked to save before it left)", why))
    b.run(f"uncordon {node}", "uncordoned")
    b.rows[-1].command = "uncordon NODE"


def _delete(b: Battery) -> None:
    b.run("delete pod lone --dry-run=server", "server dry run")
    b.run("get pod lone", "^lone")
    b.run("delete pod lone --timeout=30s", 'pod "lone" deleted')
    b.run("get pod lone", "NotFound", code=1)
    b.run("delete -f job.yaml --timeout=30s", "llama.* deleted")
    b.run("wait --for=delete job.podyard.io/llama --timeout=20s", "")
    b.run("delete vcjob vc --timeout=30s", "deleted")
    b.run("delete job -l nothing=here", "No resources found")
    b.run("delete jobs.podyard.io --all --timeout=40s", "gang.* deleted")
    b.run("delete configmap settings", "deleted")
    b.run("delete namespace team-a", "deleted")
    b.run("delete queue research", "deleted")


@contextmanager
def hook() -> Iterator[tuple[str, list[str]]]:
    """A trainer that saves at once whenever it is asked; its address, and what it was told."""
    asked: list[str] = []

    class Trainer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body["type"])
            answer = json.dumps({"state": "saved", "step": 7, "uri": "s3://runs/7"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Trainer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
