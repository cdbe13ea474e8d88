"""The parts that call hooks, as the settings ask for them."""

from api.hooks.allow import Allowed, read_allowed
from api.hooks.send import Sender
from api.hooks.sign import read_secrets
from api.settings import Role, Settings


def allowed_by(settings: Settings) -> Allowed:
    """Where hooks may be.

    This machine is allowed while nobody else reaches the service, which has no tokens then.

    Raises:
        ValueError: If `hook_allow` has an entry that is none.
    """
    entries = [entry for entry in settings.hook_allow.split(",") if entry.strip()]
    is_alone = settings.is_loopback and settings.role is Role.ALL
    return read_allowed(entries, loopback=is_alone)


def sender_by(settings: Settings) -> Sender:
    """What calls hooks.

    Raises:
        ValueError: If `hook_allow` or the secret file cannot be read; without any secret.
    """
    return Sender(
        allowed_by(settings),
        read_secrets(settings.hook_secret_file),
        timeout_s=settings.hook_timeout_s,
        bytes_max=settings.hook_answer_bytes,
    )
