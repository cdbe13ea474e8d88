"""The `podyard-agent` command: one for each node; with `--hollow`, many nodes that only pretend."""

import argparse
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from client.access import access_of
from client.agent_check import Check
from client.agent_faults import KMSG, Faults
from client.agent_loop import Agent, AgentClient, Senses, Superseded
from client.agent_node import Machine, register
from client.agent_pods import Pods, Running
from client.agent_users import read_users
from client.errors import ClientError, InputError
from client.http import DEFAULT_SERVER
from client.transport import Retry

FAILED, USAGE = 1, 2
TIMEOUT_S = 10.0
STATE = Path("/var/lib/podyard-agent")


def main(words: Sequence[str] | None = None) -> None:
    """Run an agent until it is told to end; ends with exit code 1 or 2 if it cannot."""
    given = parser().parse_args(words)
    try:
        if given.hollow:
            from client.hollow import play  # asyncio is of no use to a real agent

            play(given)
        else:
            serve(given)
    except InputError as error:
        _end(error, USAGE)
    except (ClientError, Superseded) as error:
        _end(error, FAILED)


def serve(given: argparse.Namespace) -> None:
    """Register the node, then look after its pods.

    Raises:
        InputError: If an option makes no sense, or another agent has the state directory.
        ClientError: If the node cannot be registered.
        Superseded: If another agent speaks for the node.
    """
    os.umask(0o077)  # what a pod's folder holds is nobody else's business
    users = read_users(given.user, allow_root=given.allow_root)
    running = Running(given.node, users, given.master_addr, given.grace_s, given.log_bytes)
    machine = Machine(given.node, given.gpus, given.gpu, given.file, places(given.place))
    kernel = None if given.kernel_log == "none" else Path(given.kernel_log)
    senses = Senses(Faults(kernel, given.faults), Check(given.check, given.check_s))
    with (
        only_one(given.state),
        AgentClient(
            given.server, TIMEOUT_S, access=access_of(given), retry=Retry(tries=1)
        ) as client,
    ):
        pods = Pods(given.state, running)
        register(client, machine)
        agent = Agent(client, pods, given.node, given.every, senses)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        sys.stderr.write(f"podyard-agent: node '{given.node}' at {client.server}\n")
        agent.run()


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="podyard-agent", description=__doc__)
    add = made.add_argument
    server = os.environ.get("PODYARD_SERVER", DEFAULT_SERVER)
    add("--server", default=server, help="address of the service (or PODYARD_SERVER)")
    add(
        "--token-file",
        default="",
        help="file that holds the agent's token, read anew when it "
        "changes (or PODYARD_TOKEN_FILE, PODYARD_TOKEN)",
    )
    add("--ca-file", default="", help="authority of the service's certificate, PEM")
    add("--cert-file", default="", help="certificate of the agent, PEM, instead of a token")
    add("--key-file", default="", help="its key, if it is in a file of its own")
    add("--node", default=socket.gethostname(), help="name of the node; default: the machine's")
    add("--state", type=Path, default=STATE, help=f"folder of pods and logs; default {STATE}")
    add("--gpus", type=_count, help="GPUs of a node that is not known yet; default: nvidia-smi")
    add("--gpu", default="GPU", help="their model, with --gpus")
    add("--file", type=Path, help="inventory of the node, sent at each start")
    add("--place", action="append", default=[], metavar="LEVEL=NAME", help="where the node is")
    add("--user", action="append", default=[], metavar="NAMESPACE=USER", help="who runs its pods")
    add("--allow-root", action="store_true", help="let pods run as root; for demos")
    add("--master-addr", help="instead of the name of the first rank's node; for demos")
    add("--grace-s", type=_seconds, default=30.0, help="between SIGTERM and SIGKILL; default 30")
    add("--log-bytes", type=_count, default=16 * 1024 * 1024, help="size of one log of a rank")
    add("--every", type=_seconds, default=10.0, help="longest time between heartbeats; default 10")
    add("--kernel-log", default=str(KMSG), help=f"where Xids are read; none; default {KMSG}")
    add("--faults", type=Path, help="file with faults that others write, one in JSON a line")
    add("--check", default="", metavar="COMMAND", help="tests the machine after a fault")
    add("--check-s", type=_seconds, default=600.0, help="longest time of it; default 600")
    hollow = made.add_argument_group("nodes that only pretend")
    hollow.add_argument("--hollow", type=_count, default=0, metavar="N", help="play N nodes")
    hollow.add_argument("--prefix", default="hollow-", help="of their names; default hollow-")
    hollow.add_argument("--run-s", type=_seconds, default=60.0, help="how long pods run")
    hollow.add_argument("--stop-s", type=_seconds, default=0.0, help="how long they take to stop")
    hollow.add_argument("--script", type=Path, help="run times and faults, as docs/agent.md says")
    hollow.add_argument(
        "--faults-per-day", type=_seconds, default=0.0, help="of each node, by chance"
    )
    hollow.add_argument(
        "--repair-s", type=_seconds, default=3600.0, help="how long such a fault lasts"
    )
    hollow.add_argument("--seed", type=int, default=1, help="of that chance")
    return made


def places(words: Sequence[str]) -> dict[str, str]:
    """Domains by level, as options give them.

    Raises:
        InputError: If one is not of the form LEVEL=NAME.
    """
    found = {}
    for word in words:
        level, _, name = word.partition("=")
        if not (level and name):
            raise InputError(f"--place {word}: give LEVEL=NAME, as in rack=r01")
        found[level] = name
    return found


@contextmanager
def only_one(state: Path) -> Iterator[None]:
    """Keep a second agent away from the same pods.

    Raises:
        InputError: If there is one, or the folder cannot be made.
    """
    try:
        state.mkdir(parents=True, exist_ok=True)
        lock = (state / "agent.lock").open("w")
    except OSError as error:
        raise InputError(f"--state {state}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"--state {state}: another agent runs there") from None
        yield


def _end(error: Exception, code: int) -> None:
    sys.stderr.write(f"podyard-agent: {error}\n")
    raise SystemExit(code)


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"found {value}; it must be at least 0")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text}; it must be a time of at least 0")
    return value


if __name__ == "__main__":
    main()
