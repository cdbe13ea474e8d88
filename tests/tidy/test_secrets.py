"""No secret is in the tree: no token that could be one, no private key."""

import re

from api.auth.tokens import LENGTH, read_id
from tests.tidy.source import ROOT, project_files

TOKEN = re.compile(rf"py[ds]_[0-9A-Za-z_]{{{LENGTH - 4}}}")
PRIVATE_KEY = "-----BEGIN " + "PRIVATE KEY-----"
BYTES_MAX = 2_000_000


def test_no_token_and_no_private_key_is_in_the_tree() -> None:
    """Tokens of examples have a wrong checksum."""
    found = []
    for path in project_files():
        full = ROOT / path
        if full.stat().st_size > BYTES_MAX:
            continue
        text = full.read_bytes().decode("latin-1")
        if PRIVATE_KEY in text or "BEGIN RSA PRIVATE" + " KEY" in text:
            found.append(f"{path}: a private key")
        found += [f"{path}: {m[:12]}..." for m in TOKEN.findall(text) if read_id(m) is not None]
    assert found == []
