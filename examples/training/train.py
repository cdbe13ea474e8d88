"""Data-parallel training of a small network in several processes over TCP, with numpy alone.

Started once for each rank by `podyard-agent`, which says who is who in the environment: RANK,
WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and in PODYARD_CHECKPOINT_URI what to restore.

Rank 0 adds up the gradients of all ranks in their order, so that a step gives the same loss, to
the last bit, whenever and wherever it is done. It saves every SAVE_EVERY steps into SAVE_TO and
tells the service of it, and it answers the hook `checkpoint.requested` by saving at once.

A rank that loses another does not fail: it is not its fault. It waits to be told to stop, and is
started anew, from the last checkpoint, once there is a place for the rank that was lost.
"""

import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

INPUTS, HIDDEN, BATCH, RATE = 8, 32, 64, 0.2
"""Of the network, of each rank's part of a batch, and of the descent."""

CONNECT_S = 60.0
"""Ranks are started at different times; the last one is waited for."""

ORPHAN_S = 600.0
"""How long a rank that lost the others waits to be told to stop."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the environment says."""

    rank: int = field(default_factory=lambda: int(os.environ["RANK"]))
    world: int = field(default_factory=lambda: int(os.environ["WORLD_SIZE"]))
    master: str = field(default_factory=lambda: os.environ["MASTER_ADDR"])
    port: int = field(
        default_factory=lambda: int(os.environ.get("TRAIN_PORT") or os.environ["MASTER_PORT"])
    )
    steps: int = field(default_factory=lambda: int(os.environ.get("STEPS", "200")))
    step_s: float = field(default_factory=lambda: float(os.environ.get("STEP_S", "0.1")))
    save_every: int = field(default_factory=lambda: int(os.environ.get("SAVE_EVERY", "10")))
    save_to: Path = field(default_factory=lambda: Path(os.environ["SAVE_TO"]))
    hook_port: int = field(default_factory=lambda: int(os.environ.get("HOOK_PORT", "0")))


class Lost(Exception):
    """Another rank is gone."""


class Ring:
    """The other ranks: all send to rank 0, which adds up and sends the sum to all."""

    def __init__(self, of: Setup) -> None:
        self._of = of
        self._peers: list[socket.socket] = []
        if of.world == 1:
            return
        if of.rank == 0:
            self._gather()
        else:
            self._join()

    def sum(self, values: Floats) -> Floats:
        """The sum over all ranks, added in their order; raises Lost."""
        try:
            if self._of.rank == 0:
                total = values.copy()
                for peer in self._peers:
                    total += np.frombuffer(_receive(peer))
                for peer in self._peers:
                    _send(peer, total.tobytes())
                return total
            if self._peers:
                _send(self._peers[0], values.tobytes())
                return np.frombuffer(_receive(self._peers[0])).copy()
        except OSError as error:
            raise Lost(str(error)) from None
        return values

    def _gather(self) -> None:
        with socket.create_server((self._of.master, self._of.port), reuse_port=False) as server:
            server.settimeout(CONNECT_S)
            by_rank: dict[int, socket.socket] = {}
            while len(by_rank) < self._of.world - 1:
                peer, _ = server.accept()
                by_rank[struct.unpack("!q", _receive(peer))[0]] = peer
        self._peers = [by_rank[rank] for rank in sorted(by_rank)]

    def _join(self) -> None:
        until = time.monotonic() + CONNECT_S
        while True:
            try:
                peer = socket.create_connection((self._of.master, self._of.port), timeout=5)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        peer.settimeout(None)
        _send(peer, struct.pack("!q", self._of.rank))
        self._peers = [peer]


def _send(peer: socket.socket, data: bytes) -> None:
    peer.sendall(struct.pack("!q", len(data)) + data)


def _receive(peer: socket.socket) -> bytes:
    (length,) = struct.unpack("!q", _exactly(peer, 8))
    return _exactly(peer, length)


def _exactly(peer: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = peer.recv(length - len(data))
        if not chunk:
            raise ConnectionError("another rank has closed the connection")
        data += chunk
    return bytes(data)


class Network:
    """One hidden layer that learns the sine of a weighted sum; all weights in one array."""

    def __init__(self) -> None:
        random = np.random.default_rng(7)
        self.weights: Floats = random.normal(0, 0.3, INPUTS * HIDDEN + 2 * HIDDEN + 1)
        self.target: Floats = random.normal(0, 0.5, INPUTS)

    def batch(self, step: int, rank: int) -> tuple[Floats, Floats]:
        """The same examples for the same step and rank, whoever asks."""
        x = np.random.default_rng([step, rank]).normal(0, 1, (BATCH, INPUTS))
        return x, np.sin(x @ self.target)

    def slopes(self, x: Floats, y: Floats) -> tuple[float, Floats]:
        """Mean squared error of a batch, and its gradient."""
        first = self.weights[: INPUTS * HIDDEN].reshape(INPUTS, HIDDEN)
        bias, second = self.weights[INPUTS * HIDDEN : -1].reshape(2, HIDDEN)
        hidden = np.tanh(x @ first + bias)
        error = hidden @ second + self.weights[-1] - y
        back = np.outer(error, second) * (1 - hidden**2)
        parts = ((x.T @ back).ravel(), back.sum(0), hidden.T @ error, [error.sum()])
        return float(np.mean(error**2)), 2 / BATCH * np.concatenate(parts)


class Saving:
    """Checkpoints: written as a whole or not at all, and told to the service."""

    def __init__(self, of: Setup, network: Network) -> None:
        self._of, self._network = of, network
        self.step = 0
        self.lock = threading.Lock()
        """Held while weights change, so that a checkpoint is of one step."""

    def restore(self) -> None:
        """Begin where the checkpoint ended that the service names, if it names one."""
        uri = os.environ.get("PODYARD_CHECKPOINT_URI")
        if uri:
            with np.load(unquote(urlsplit(uri).path)) as saved:
                self._network.weights = saved["weights"]
                self.step = int(saved["step"])

    def save(self) -> dict[str, object]:
        """Write a checkpoint; what to tell of it."""
        path = self._of.save_to / f"step-{self.step}.npz"
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez(file, weights=self._network.weights, step=self.step)
        partial.replace(path)
        return {"step": self.step, "uri": path.absolute().as_uri()}

    def tell(self, saved: dict[str, object]) -> None:
        """Tell the service; training goes on if it cannot be reached."""
        server = os.environ.get("PODYARD_SERVER")
        if not server:
            return
        of_job = f"{os.environ['PODYARD_NAMESPACE']}/jobs/{os.environ['PODYARD_JOB']}"
        request = urllib.request.Request(  # noqa: S310 - the address of the user's own service
            f"{server}/v1/namespaces/{of_job}/checkpoints",
            json.dumps(saved).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 - as above
        except OSError as error:
            say(f"checkpoint of step {saved['step']} could not be told: {error}")


def serve_hook(saving: Saving, port: int) -> None:
    """Answer `checkpoint.requested` by saving at once; take all else as read."""

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            message = json.loads(self.rfile.read(length) or b"{}")
            answer: dict[str, object] = {}
            if message.get("type") == "checkpoint.requested":
                with saving.lock:
                    answer = {"state": "saved"} | saving.save()
                say(f"saved step {answer['step']} as it was asked for")
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: what matters is said above."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def train(of: Setup) -> None:
    """All steps that are left; raises Lost."""
    network = Network()
    saving = Saving(of, network)
    saving.restore()
    if of.rank == 0:
        of.save_to.mkdir(parents=True, exist_ok=True)
        say(f"{of.world} ranks begin after step {saving.step}")
        if of.hook_port:
            serve_hook(saving, of.hook_port)
    ring = Ring(of)
    while saving.step < of.steps:
        loss, slopes = network.slopes(*network.batch(saving.step, of.rank))
        total = ring.sum(np.append(slopes, loss)) / of.world
        with saving.lock:
            network.weights = network.weights - RATE * total[:-1]
            saving.step += 1
            if of.rank == 0:
                say(f"step {saving.step} loss {total[-1]:.17g}")
                if saving.step % of.save_every == 0:
                    saving.tell(saving.save())
        time.sleep(of.step_s)
    ring.sum(np.zeros(1))  # so that nobody leaves before the others have their last sum


def main() -> int:
    """Train; 0 when all steps are done, 1 if this rank alone is left for too long."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    of = Setup()
    try:
        train(of)
    except Lost as error:
        say(f"rank {of.rank} lost the others: {error}; it waits to be told what next")
        time.sleep(ORPHAN_S)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
