"""`podyard serve` over TLS with a token for each role, and `kubectl` in the name of each."""

import ssl
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Self

import httpx
from cryptography import x509

from tests.api.http.test_certificates import Authority
from tests.k8s.kubectl import INVENTORY, Kubectl, Result, Served, until

PROGRAM = "from api.command import main; main()"

READY_S = 180.0
"""A busy machine takes its time to start a process."""

TOKENS: dict[str, tuple[str, ...]] = {
    "viewer": ("--role", "viewer"),
    "submitter": ("--role", "submitter"),
    "operator": ("--role", "operator"),
    "admin": ("--role", "admin"),
    "agent": ("--role", "agent", "--node", "a1"),
    "ann": ("--role", "submitter", "--namespace", "alpha"),
}
"""By name: the tokens of a service; `ann` is a tenant."""


class Secured(Served):
    """The service; everything that a test sends goes by TLS and with a token."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = self.url.replace("http:", "https:")
        self.database = f"sqlite:///{folder / 'podyard.db'}"
        self.authority = Authority(folder, "authority")
        self.certificate = self.authority.make(
            "podyard", x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")
        )
        self.tokens: dict[str, str] = {}

    def __enter__(self) -> Self:
        run("migrate", "--database-url", self.database)
        for name, flags in TOKENS.items():
            file = self._folder / f"{name}.token"
            run(
                "token", "create", name, *flags, "--out", str(file), "--database-url", self.database
            )
            self.tokens[name] = file.read_text().strip()
        tls = ["--tls-cert", self.certificate, "--tls-key", self.certificate]
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", PROGRAM, "serve", "--port", str(self.port)),
                *("--database-url", self.database, "--log-format", "json", *tls),
            ],
            stdout=self._log,
            stderr=self._log,
        )
        try:
            until(self._is_up, "the service is ready", READY_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self._folder / "service.log").read_text()[-2_000:]
        return self.curl("admin", "GET", "/readyz") == 200

    def curl(self, name: str, method: str, path: str, body: bytes | None = None) -> int:
        """Status of one request of `/v1`; 0 where there was no answer."""
        context = ssl.create_default_context(cafile=self.authority.file)
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        headers |= {"Content-Type": "application/yaml"} if body else {}
        try:
            answer = httpx.request(
                method, self.url + path, content=body, headers=headers, verify=context, timeout=30
            )
        except httpx.TransportError:
            return 0
        return answer.status_code

    def load(self) -> None:
        """Import the inventory."""
        path = "/v1/inventory?format=podyard"
        assert self.curl("admin", "POST", path, INVENTORY.encode()) == 200


class As(Kubectl):
    """`kubectl` in somebody's name; "" = in nobody's."""

    def __init__(self, path: Path, served: Secured, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(path, served.url, folder)
        token = served.tokens.get(name)
        known = ("--certificate-authority", served.authority.file)
        self._who = (*known, *(("--token", token) if token else ()))

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return super()._command((*self._who, *arguments))


def run(*arguments: str) -> Result:
    """A command of `podyard`, which must do."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Result(done.returncode, done.stdout, done.stderr)
