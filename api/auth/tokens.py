"""The form of tokens: `pyd_`, an id that may be shown, a secret, and a sum that finds typos.

    pyd_Ab3dEf7H_<32 letters and digits><6 of the sum>

A secret is 190 bits of the system's chance, so one round of SHA-256 keeps it: nobody can try that
many. Slow hashes are for words that people choose; here they would only make each request slow.
"""

import hashlib
import hmac
import re
import secrets
import zlib
from dataclasses import dataclass, field

TOKEN, SESSION = "pyd", "pys"
"""What tokens, and the cookies of browsers, begin with; scanners for lost secrets look for it."""

ID_LENGTH, SECRET_LENGTH, SUM_LENGTH = 8, 32, 6
LENGTH = len(TOKEN) + 1 + ID_LENGTH + 1 + SECRET_LENGTH + SUM_LENGTH

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM = re.compile(
    rf"({TOKEN}|{SESSION})_([0-9A-Za-z]{{{ID_LENGTH}}})_[0-9A-Za-z]{{{SECRET_LENGTH + SUM_LENGTH}}}"
)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made; only its digest is ever kept.

    Attributes:
        id: Tells tokens apart in lists and logs; no secret.
        text: What its holder sends.
    """

    id: str
    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        return digest_of(self.text)


def make_token(prefix: str = TOKEN) -> NewToken:
    """A token that nobody has seen before."""
    id = "".join(secrets.choice(_DIGITS) for _ in range(ID_LENGTH))
    secret = "".join(secrets.choice(_DIGITS) for _ in range(SECRET_LENGTH))
    body = f"{prefix}_{id}_{secret}"
    return NewToken(f"{prefix}_{id}", body + _sum(body))


def read_id(text: str) -> str | None:
    """The id of a token of this form whose sum is right, with its prefix; None of any other.

    A guess of a stranger ends here, before anything is looked up.
    """
    if len(text) != LENGTH:
        return None
    found = _FORM.fullmatch(text)
    if found is None or _sum(text[:-SUM_LENGTH]) != text[-SUM_LENGTH:]:
        return None
    return f"{found[1]}_{found[2]}"


def digest_of(text: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_same(kept: str, text: str) -> bool:
    """Whether a kept digest is that of a token, in a time that tells nothing of it."""
    return hmac.compare_digest(kept, digest_of(text))


def _sum(body: str) -> str:
    left, digits = zlib.crc32(body.encode()), ""
    for _ in range(SUM_LENGTH):
        left, digit = divmod(left, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
