"""Signatures of messages, and secrets that nobody sees."""

import base64
import time
from pathlib import Path

import pytest
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from api.hooks.sign import Secrets, read_secrets

ONE = "whsec_" + base64.b64encode(b"a" * 32).decode()
TWO = "whsec_" + base64.b64encode(b"b" * 32).decode()


def test_a_receiver_with_the_secret_can_verify_a_message() -> None:
    headers = Secrets((ONE,)).headers("research", "m-1", time.time(), '{"type":"x"}')
    assert Webhook(ONE).verify('{"type":"x"}', dict(headers)) == {"type": "x"}
    assert headers["webhook-id"] == "m-1"


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of the specification's own test vectors."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = '{"test": 2432232314}'
    headers = Secrets((secret,)).headers("", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-timestamp"] == "1614265330"
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_message_that_was_changed_is_not_verified() -> None:
    headers = Secrets((ONE,)).headers("research", "m-1", time.time(), "{}")
    with pytest.raises(WebhookVerificationError):
        Webhook(ONE).verify('{"a":1}', dict(headers))


def test_a_namespace_has_its_own_secret() -> None:
    secrets = Secrets((ONE, f"research {TWO}"))
    now_s = time.time()
    Webhook(TWO).verify("{}", dict(secrets.headers("research", "m", now_s, "{}")))
    Webhook(ONE).verify("{}", dict(secrets.headers("other", "m", now_s, "{}")))


def test_while_a_secret_is_replaced_both_verify() -> None:
    headers = dict(Secrets((ONE, TWO)).headers("n", "m", time.time(), "{}"))
    Webhook(ONE).verify("{}", headers)
    Webhook(TWO).verify("{}", headers)


def test_without_a_secret_there_is_no_signature() -> None:
    assert set(Secrets().headers("n", "m", 1.0, "{}")) == {"webhook-id", "webhook-timestamp"}


def test_secrets_are_not_shown() -> None:
    secrets = Secrets((ONE, f"research {TWO}"))
    for text in (repr(secrets), str(secrets), f"{secrets!r}"):
        assert "whsec" not in text
        assert "YWFh" not in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hunter2hunter2", "line 2: a secret begins with 'whsec_'"),
        ("whsec_hunter2!!", "line 2: after 'whsec_' a secret is Base64"),
        ("whsec_aHVudGVyMg==", "line 2: a secret has 24 to 64 bytes, found 7"),
        ("a b whsec_hunter2", "line 2 has more than"),
    ],
)
def test_a_wrong_line_is_named_by_its_number_and_not_shown(
    tmp_path: Path, line: str, words: str
) -> None:
    path = tmp_path / "secrets"
    path.write_text(f"# ours\n{line}\n")
    with pytest.raises(ValueError, match="hook_secret_file") as caught:
        read_secrets(str(path))
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "aHVudGVyMg" not in str(caught.value)


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        read_secrets(str(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not UTF-8"):
        read_secrets(str(tmp_path / "binary"))
