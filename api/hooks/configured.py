"""The parts that call hooks, as the settings ask for them."""

from collections.abc import Callable

from api.hooks.allow import Allowed, nobody, read_allowed
from api.hooks.send import Sender
from api.hooks.sign import read_secrets
from api.settings import Role, Settings


def allowed_by(settings: Settings, asks: Callable[[], bool] = nobody) -> Allowed:
    """Where hooks may be.

    This machine is allowed while nobody else reaches the service, and nobody is asked for a token.

    Args:
        asks: Whether callers are asked who they are, by now.

    Raises:
        ValueError: If `hook_allow` has an entry that is none.
    """
    entries = [entry for entry in settings.hook_allow.split(",") if entry.strip()]
    is_alone = settings.is_loopback and settings.role is Role.ALL
    return read_allowed(entries, loopback=is_alone, asks=asks)


def sender_by(settings: Settings, asks: Callable[[], bool] = nobody) -> Sender:
    """What calls hooks.

    Raises:
        ValueError: If `hook_allow` or the secret file cannot be read; without any secret.
    """
    return Sender(
        allowed_by(settings, asks),
        read_secrets(settings.hook_secret_file),
        timeout_s=settings.hook_timeout_s,
        bytes_max=settings.hook_answer_bytes,
    )
