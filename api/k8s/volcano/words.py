"""Names as Kubernetes allows them."""

import re

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_ENV = re.compile(r"[\x20-\x3c\x3e-\x7e]+\Z")

LABEL = "1 to 63 lower-case letters, digits and '-', a letter or digit at both ends"
SUBDOMAIN = "1 to 253 lower-case letters, digits, '-' and '.', a letter or digit at the ends"
QUALIFIED = "1 to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends"


def is_label(name: str) -> bool:
    """RFC 1123: a name of one part."""
    return len(name) <= 63 and _LABEL.match(name) is not None


def is_subdomain(name: str) -> bool:
    """RFC 1123: parts joined by dots."""
    return len(name) <= 253 and _SUBDOMAIN.match(name) is not None


def is_qualified(name: str) -> bool:
    """What a label's value or the name of a key may be."""
    return len(name) <= 63 and _QUALIFIED.match(name) is not None


def is_key(key: str) -> bool:
    """A key of labels, annotations and resources: a name, perhaps with a domain before it."""
    domain, slash, name = key.rpartition("/")
    return is_qualified(name) and (not slash or is_subdomain(domain))


def is_env_name(name: str) -> bool:
    """Printable and without `=`, as Kubernetes takes them since 1.30."""
    return _ENV.match(name) is not None


def wrong(found: str, allowed: str) -> str:
    """A message about a name."""
    return f"found '{found[:80]}'; a name has {allowed}"
