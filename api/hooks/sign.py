"""Signatures by the Standard Webhooks specification, and the secrets they are made with.

A secret file has a line for each secret: `whsec_...` for all namespaces, or `NAMESPACE whsec_...`
for one. Several lines for the same sign one after the other, so that a secret can be replaced while
receivers still know the old one. Lines that begin with `#` are left out.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from standardwebhooks import Webhook

PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
"""As the specification asks."""


class Secrets:
    """What messages are signed with. Shows nothing of it.

    Args:
        lines: Of the secret file.

    Raises:
        ValueError: With the number of a line that cannot be read; never with its text.
    """

    def __init__(self, lines: tuple[str, ...] = ()) -> None:
        self._signers: dict[str, list[Webhook]] = {}
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) > 2:
                raise ValueError(f"line {number} has more than a namespace and a secret")
            namespace = words[0] if len(words) == 2 else ""
            self._signers.setdefault(namespace, []).append(_signer(number, words[-1]))

    def __repr__(self) -> str:
        return f"Secrets(of {len(self._signers)})"

    def __bool__(self) -> bool:
        return bool(self._signers)

    def headers(self, namespace: str, message_id: str, at_s: float, body: str) -> Mapping[str, str]:
        """The headers of one attempt to send a message.

        Args:
            at_s: Unix seconds of the attempt.

        Returns:
            Without a signature where the namespace has no secret and there is none for all.
        """
        at = datetime.fromtimestamp(int(at_s), UTC)
        headers = {"webhook-id": message_id, "webhook-timestamp": str(int(at_s))}
        signers = self._signers.get(namespace) or self._signers.get("", [])
        if signers:
            made = (signer.sign(message_id, at, body) for signer in signers)
            headers["webhook-signature"] = " ".join(made)
        return headers


def read_secrets(path: str | None) -> Secrets:
    """The secrets of a file; none without one.

    Raises:
        ValueError: If the file cannot be read; without its text.
    """
    if path is None:
        return Secrets()
    try:
        return Secrets(tuple(Path(path).read_text("utf-8").splitlines()))
    except OSError as error:
        raise ValueError(f"hook_secret_file '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"hook_secret_file '{path}': it is not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"hook_secret_file '{path}': {error}") from None


def _signer(number: int, secret: str) -> Webhook:
    if not secret.startswith(PREFIX):
        raise ValueError(f"line {number}: a secret begins with '{PREFIX}'")
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"line {number}: after '{PREFIX}' a secret is Base64") from None
    if len(key) not in SECRET_BYTES:
        raise ValueError(
            f"line {number}: a secret has {SECRET_BYTES.start} to {SECRET_BYTES.stop - 1} bytes, "
            f"found {len(key)}"
        )
    return Webhook(key)
