"""Logs: events with keys, as text for people or JSON for programs, on standard error."""

import logging
import sys
from typing import Literal

import structlog

LogFormat = Literal["auto", "text", "json"]


def configure_logs(log_format: LogFormat = "auto", level: str = "info") -> None:
    """Set up logging for the process; what libraries log passes the same way.

    Args:
        log_format: `auto` is text on a terminal, JSON elsewhere.
        level: `debug`, `info`, `warning` or `error`.
    """
    as_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = (
        [
            _printable,
            # Without local variables, which may be somebody's secrets.
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # A line for each request is the proxy's business; what fails is logged by its handler.
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # These tell the URLs of hooks, which may hold secrets.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger; `log.info("gang_bound", job_id=..., node_count=...)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _printable(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Control characters as they are written in Python: a text from outside begins no line here."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value)
    return event


log = get_logger("podyard")
"""The logger of whoever needs no name of its own."""
