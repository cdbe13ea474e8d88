"""One attempt to deliver, against a real receiver."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from api.hooks.allow import Allowed, read_allowed
from api.hooks.send import Answer, Message, Sender
from api.hooks.sign import Secrets
from tests.api.hooks.receiver import Receiver, Reply, saved
from tests.api.hooks.test_sign import ONE

ALONE = read_allowed([], loopback=True)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def send(
    url: str,
    *,
    allowed: Allowed = ALONE,
    timeout_s: float = 5.0,
    addresses: Sequence[str] = (),
    body: str = "{}",
) -> Answer:
    async def resolve(host: str, port: int) -> Sequence[str]:
        if not addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return addresses

    sender = Sender(
        allowed,
        Secrets((ONE,)),
        timeout_s=timeout_s,
        bytes_max=4096,
        resolve=resolve,
    )
    return asyncio.run(sender.send(Message("m-1", "research", url, body)))


def test_a_message_arrives_signed_and_unchanged(receiver: Receiver) -> None:
    body = '{"type":"x","data":{"name":"\\u00e4"}}'
    assert send(receiver.url, body=body) == Answer(204)
    (got,) = receiver.got
    assert got.body == body
    assert got.headers["webhook-id"] == "m-1"
    assert got.headers["webhook-signature"].startswith("v1,")
    assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 60
    assert got.headers["content-type"] == "application/json"
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"


def test_the_answer_is_read(receiver: Receiver) -> None:
    receiver.answer = lambda _: saved(7, "s3://b/7")
    answer = send(receiver.url)
    assert answer.status == 200
    assert b'"saved"' in answer.body


def test_the_address_that_was_checked_is_called_under_the_name(receiver: Receiver) -> None:
    allowed = read_allowed(["trainer.localhost"], loopback=True)
    url = f"http://trainer.localhost:{receiver.port}/hook?token=x"
    assert send(url, allowed=allowed, addresses=["127.0.0.1"]).is_taken
    (got,) = receiver.got
    assert got.headers["host"] == f"trainer.localhost:{receiver.port}"
    assert got.path == "/hook?token=x"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "10.0.0.1"]
)
def test_a_name_that_leads_elsewhere_than_allowed_is_not_called(
    receiver: Receiver, address: str
) -> None:
    allowed = read_allowed(["10.9.0.0/16"], loopback=False)
    url = f"http://evil.example:{receiver.port}/"
    answer = send(url, allowed=allowed, addresses=["10.9.0.1", address])
    assert answer.status is None
    assert "evil.example" in answer.error
    assert receiver.got == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    receiver.answer = lambda got: Reply(
        status if got.path == "/hook" else 200, headers={"Location": "/other"}
    )
    assert send(receiver.url).error == f"answered {status}; redirects are not followed"
    assert [got.path for got in receiver.got] == ["/hook"]


@pytest.mark.parametrize("status", [400, 404, 410, 500, 503])
def test_an_error_of_the_receiver_is_told(receiver: Receiver, status: int) -> None:
    receiver.answer = lambda _: Reply(status, b"secret details")
    assert send(receiver.url) == Answer(status, error=f"answered {status}")


def test_a_connection_that_hangs_ends_in_time(receiver: Receiver) -> None:
    receiver.answer = lambda _: receiver.hang()
    began = time.monotonic()
    assert send(receiver.url, timeout_s=0.2).error == "no answer within 0.2 s"
    assert time.monotonic() - began < 5


def test_an_answer_in_drops_ends_in_time() -> None:
    """Bytes that come one by one keep every read short; the attempt has a limit all the same."""
    is_over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            while not is_over.wait(0.02):
                try:
                    connection.send(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        began = time.monotonic()
        answer = send(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout_s=0.3)
        is_over.set()
        thread.join(5)
    assert not answer.is_taken
    assert time.monotonic() - began < 5


def test_an_answer_that_is_too_large_is_not_taken(receiver: Receiver) -> None:
    receiver.answer = lambda _: Reply(200, chunks=100)
    assert send(receiver.url).error == "answered more than 4096 bytes"


def test_a_packed_answer_is_not_unpacked(receiver: Receiver) -> None:
    receiver.answer = lambda _: Reply(200, b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert send(receiver.url) == Answer(200, b"\x1f\x8b")
    assert receiver.got[0].headers["accept-encoding"] == "identity"


def test_a_port_where_nobody_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "ConnectError" in send(f"http://127.0.0.1:{port}/").error


def test_a_name_that_has_no_address_is_told() -> None:
    allowed = read_allowed(["trainer.example.com"], loopback=False)
    assert "cannot be resolved" in send("http://trainer.example.com/", allowed=allowed).error


def test_plain_text_on_a_port_of_tls_is_told(receiver: Receiver) -> None:
    answer = send(receiver.url.replace("http:", "https:"))
    assert answer.status is None
    assert answer.error


def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1/")
    assert send(receiver.url).is_taken


def test_certificates_are_checked() -> None:
    sender = Sender(ALONE, Secrets(), timeout_s=1.0, bytes_max=4096)
    assert sender._tls.verify_mode is ssl.CERT_REQUIRED
    assert sender._tls.check_hostname
