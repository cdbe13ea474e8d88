"""What a client shows of itself and believes of others: a token, an authority, a certificate.

Values alone, as most commands need no more to begin with; `showing.py` makes use of them.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

TOKEN, TOKEN_FILE, CA_FILE = "PODYARD_TOKEN", "PODYARD_TOKEN_FILE", "PODYARD_CA_FILE"
CERT_FILE, KEY_FILE = "PODYARD_CERT_FILE", "PODYARD_KEY_FILE"


@dataclass(frozen=True, slots=True)
class Access:
    """What one client shows and believes.

    Attributes:
        token: Goes before `token_file`.
        token_file: Read again when it changes, so that a token can be replaced meanwhile.
        ca_file: Authority of the service's certificate, PEM; those of the system without.
        cert_file, key_file: Certificate that the client shows, PEM; the key may be in the same.
    """

    token: str = field(default="", repr=False)
    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def or_of(self, environment: Mapping[str, str]) -> "Access":
        """The same, with what is not given taken from the environment."""
        names = (TOKEN, TOKEN_FILE, CA_FILE, CERT_FILE, KEY_FILE)
        return self.or_else(Access(*(environment.get(name, "") for name in names)))

    def or_else(self, other: "Access") -> "Access":
        """The same, with what is not given taken from another."""
        return Access(
            self.token if self.has_token else other.token,
            self.token_file if self.has_token else other.token_file,
            self.ca_file or other.ca_file,
            self.cert_file or other.cert_file,
            self.key_file or other.key_file,
        )

    @property
    def has_token(self) -> bool:
        return bool(self.token or self.token_file)


NOTHING = Access()
"""No token, and the authorities of the system."""


def access_of(given: argparse.Namespace) -> Access:
    """How the agent shows who it is, by its options and the environment."""
    files = Access("", given.token_file, given.ca_file, given.cert_file, given.key_file)
    return files.or_of(os.environ)
