"""Many nodes in one process, which run nothing: for load, for trying things out, for tests."""

import argparse
import asyncio
import json
import random
import signal
import sys
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from client.access import Access, access_of
from client.agent_node import NODE
from client.errors import InputError
from client.http import Client
from client.showing import auth_of, verify_of
from client.transport import CONNECT_TIMEOUT_S, server_address

GPUS = 8
TIMEOUT_S = 30.0
AWAY_S = 5.0
CONNECTIONS = 64
ENDED = frozenset({"stopped", "succeeded", "failed"})
FAULTS = ("silent", "crash", "reboot", "report")
CODES = ("xid_79", "xid_31", "xid_48", "nic_down", "ecc_dbe", "node_lost")
"""Of faults that come by chance; nobody's statistics, every kind of answer is among them."""

DAY_S = 86_400.0

Run = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls a node.

    It is `silent` for a time; all its pods `crash`; it is silent and has lost its pods then
    (`reboot`); or its agent makes a `report`, which is over after `for_s`.
    """

    node: str
    do: str
    at_s: float
    for_s: float = 0.0
    code: str = ""
    gpus: tuple[int, ...] = ()
    rail: int | None = None

    def body(self) -> dict[str, object]:
        """As the service takes it."""
        found: dict[str, object] = {"code": self.code, "message": "played"}
        if self.gpus:
            found["gpus"] = list(self.gpus)
        return found if self.rail is None else found | {"rail": self.rail}


@dataclass(frozen=True, slots=True)
class Script:
    """How pods go.

    Attributes:
        run_s, stop_s: How long they run, and take to stop.
        jobs: By `namespace/name`, `run_s` and `exit_code` of its pods.
    """

    run_s: float = 60.0
    stop_s: float = 0.0
    jobs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    def life(self, job: str) -> tuple[float, int]:
        """How long a pod of a job runs, and its exit code."""
        of = self.jobs.get(job, {})
        return float(of.get("run_s", self.run_s)), int(of.get("exit_code", 0))


@dataclass(slots=True)
class Pod:
    """One pod that pretends; `ends_at` is of the loop's clock."""

    state: str
    ends_at: float
    exit_code: int
    will_be: str


class HollowNode:
    """Plays the agent of one node; knows no clock."""

    def __init__(self, name: str, script: Script) -> None:
        self.name = name
        self._script = script
        self.session = f"{name}-{uuid.uuid4().hex}"
        self.acted_on = 0
        self.pods: dict[Run, Pod] = {}
        self._faults = sorted(
            (fault for fault in script.faults if fault.node == name), key=lambda f: f.at_s
        )
        self.silent_until = 0.0
        self.reports: list[Fault] = []
        self.over: list[tuple[float, int]] = []

    def look(self, now: float) -> None:
        """Let happen what is due."""
        while self._faults and self._faults[0].at_s <= now:
            self._befall(self._faults.pop(0))
        for pod in self.pods.values():
            if pod.state not in ENDED and now >= pod.ends_at:
                pod.state = pod.will_be

    def _befall(self, fault: Fault) -> None:
        if fault.do in {"silent", "reboot"}:
            self.silent_until = fault.at_s + fault.for_s
        if fault.do == "report":
            self.reports.append(fault)
        elif fault.do == "reboot":
            self.session, self.acted_on = f"{self.name}-{uuid.uuid4().hex}", 0
            self.pods.clear()
        elif fault.do == "crash":
            for pod in self.pods.values():
                pod.state, pod.exit_code = "failed", 137

    def body(self) -> dict[str, object]:
        """The heartbeat that is due."""
        pods = [self._word(run) for run in sorted(self.pods)]
        said = {"session": self.session, "boot_id": self.session, "pods": pods}
        return said | {"acted_on": self.acted_on}

    def heard(
        self,
        desired: list[Mapping[str, object]],
        now: float,
        stopping: Iterable[Mapping[str, object]] = (),
    ) -> None:
        """Act on the answer to a heartbeat: start and stop pods.

        Args:
            stopping: What is to stop and was not told of; what is not here has stopped.
        """
        self.pods = {run: pod for run, pod in self.pods.items() if pod.state not in ENDED}
        wanted = {(str(d["uid"]), int(str(d["attempt"]))): d for d in desired}
        for run in sorted(wanted.keys() - self.pods.keys()):
            if wanted[run]["launch"] is None:
                continue  # it has run already
            run_s, code = self._script.life(str(wanted[run]["job"]))
            self.pods[run] = Pod("running", now + run_s, code, "failed" if code else "succeeded")
        for run in sorted(self.pods.keys() - wanted.keys()):
            pod = self.pods[run]
            if pod.will_be != "stopped":
                pod.state, pod.will_be = "terminating", "stopped"
                pod.ends_at = now + self._script.stop_s
        for word in stopping:
            run = (str(word["uid"]), int(str(word["attempt"])))
            self.pods.setdefault(run, Pod("stopped", now, 0, "stopped"))

    def next_s(self, now: float, asked_s: float) -> float:
        """Until the next heartbeat: when something ends, or when the service asks for it."""
        due = [pod.ends_at for pod in self.pods.values()] + [f.at_s for f in self._faults[:1]]
        due += [at for at, _ in self.over]
        return max(0.05, min([asked_s, *(at - now for at in due)]))

    def _word(self, run: Run) -> dict[str, object]:
        pod = self.pods[run]
        code = pod.exit_code if pod.state in {"succeeded", "failed"} else None
        return {"uid": run[0], "attempt": run[1], "state": pod.state, "exit_code": code}


def play(given: argparse.Namespace) -> None:
    """Play nodes until told to end.

    Raises:
        InputError: If the script makes no sense.
        ClientError: If the nodes cannot be registered.
    """
    script = read_script(given.script, run_s=given.run_s, stop_s=given.stop_s)
    width = len(str(given.hollow))
    names = [f"{given.prefix}{number:0{width}}" for number in range(1, given.hollow + 1)]
    if given.faults_per_day:
        by_chance = chance_faults(names, given.faults_per_day, given.repair_s, given.seed)
        script = replace(script, faults=(*script.faults, *by_chance))
    access = access_of(given)
    with Client(given.server, access=access) as client:
        levels = list(client.topology()["levels"])
        content = inventory(names, levels, given.gpus or GPUS, given.gpu)
        client.import_inventory(json.dumps(content).encode(), format="podyard")
    sys.stderr.write(f"podyard-agent: plays {len(names)} nodes at {given.server}\n")
    nodes = [HollowNode(name, script) for name in names]
    asyncio.run(_play(given.server, access, nodes, given.every))


def chance_faults(names: list[str], per_day: float, repair_s: float, seed: int) -> list[Fault]:
    """Faults of the next day, each node's at times and of kinds that a seed decides."""
    found = []
    dice = random.Random(seed)  # noqa: S311 - a play, no secret
    for name in names:
        at_s = dice.expovariate(per_day / DAY_S)
        while at_s < DAY_S:
            code = dice.choice(CODES)
            gpus = (0,) if code.startswith(("xid", "ecc")) else ()
            rail = 0 if code == "nic_down" else None
            found.append(Fault(name, "report", at_s, repair_s, code, gpus, rail))
            at_s += repair_s + dice.expovariate(per_day / DAY_S)
    return found


def inventory(names: list[str], levels: list[str], gpus: int, gpu: str) -> dict[str, object]:
    """All nodes, with no place at any level."""
    levels = levels or [NODE]
    places = {level: None for level in levels if level != NODE}
    kind = f"hollow-{gpus}x-{gpu}"
    nodes = [{"names": name, "type": kind} | places for name in names]
    types = {kind: {"gpu": gpu, "gpus": gpus}}
    return {"levels": levels, "scale_up": NODE, "node_types": types, "nodes": nodes}


def read_script(path: Path | None, *, run_s: float, stop_s: float) -> Script:
    """A script in YAML; what it does not say is as the options do.

    Raises:
        InputError: If it cannot be read or says what no script can.
    """
    if path is None:
        return Script(run_s, stop_s)
    import yaml  # only here

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        faults = tuple(_fault(fault) for fault in found.get("faults", []))
        script = Script(
            float(found.get("run_s", run_s)),
            float(found.get("stop_s", stop_s)),
            found.get("jobs", {}),
            faults,
        )
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise InputError(f"--script {path}: {error}") from None
    if wrong := [fault.do for fault in faults if fault.do not in FAULTS]:
        raise InputError(f"--script {path}: found '{wrong[0]}'; a fault is {', '.join(FAULTS)}")
    if any(fault.do == "report" and not fault.code for fault in faults):
        raise InputError(f"--script {path}: a report needs a code, as in xid_79")
    return script


def _fault(of: dict[str, Any]) -> Fault:
    return Fault(**{**of, "gpus": tuple(of.get("gpus", ()))})


async def _play(server: str, access: Access, nodes: list[HollowNode], every_s: float) -> None:
    loop = asyncio.get_running_loop()
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S, pool=None)
    async with httpx.AsyncClient(
        base_url=server_address(server),
        limits=limits,
        timeout=timeout,
        trust_env=False,
        auth=auth_of(access),
        verify=verify_of(access),
    ) as http:
        began = loop.time()
        # The client's own line of waiting requests is slow when it is long.
        turn = asyncio.Semaphore(CONNECTIONS)
        tasks = [asyncio.create_task(_node(http, turn, node, every_s, began)) for node in nodes]
        everything = asyncio.gather(*tasks)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, everything.cancel)
        try:
            await everything
        except asyncio.CancelledError:
            return


async def _node(
    http: httpx.AsyncClient,
    turn: asyncio.Semaphore,
    node: HollowNode,
    every_s: float,
    began: float,
) -> None:
    loop = asyncio.get_running_loop()
    # Not all at once, now and ever after.
    await asyncio.sleep(random.uniform(0, min(1.0, every_s)))  # noqa: S311 - spreads load
    while True:
        now = loop.time() - began
        node.look(now)
        if now < node.silent_until:
            await asyncio.sleep(node.silent_until - now)
            continue
        async with turn:
            pause_s = await _beat(http, node, every_s, now)
            await _tell(http, node, now)
        await asyncio.sleep(pause_s)


async def _tell(http: httpx.AsyncClient, node: HollowNode, now: float) -> None:
    """Report what befell a node, and that it is over; not tried again, as it is a play."""
    faults = f"/v1/nodes/{node.name}/faults"
    try:
        while node.reports:
            fault = node.reports.pop()
            made = await http.post(faults, json=fault.body())
            made.raise_for_status()
            if fault.for_s:
                node.over.append((now + fault.for_s, int(made.json()["id"])))
        for at, number in [found for found in node.over if found[0] <= now]:
            node.over.remove((at, number))
            (await http.delete(f"{faults}/{number}")).raise_for_status()
    except httpx.HTTPError as error:
        sys.stderr.write(f"podyard-agent: {node.name}: {error}\n")


async def _beat(http: httpx.AsyncClient, node: HollowNode, every_s: float, now: float) -> float:
    """One heartbeat; seconds until the next."""
    try:
        response = await http.post(f"/v1/nodes/{node.name}/heartbeat", json=node.body())
        response.raise_for_status()
        answer = response.json()
    except httpx.HTTPError as error:
        sys.stderr.write(f"podyard-agent: {node.name}: {error}\n")
        return min(AWAY_S, every_s)
    node.heard(answer["desired"], now, answer.get("stopping", ()))
    node.acted_on = int(answer["node_revision"])
    return node.next_s(now, min(float(answer["next_s"]), every_s))
