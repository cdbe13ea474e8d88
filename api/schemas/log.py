"""Logs of pods: what is read of them, and what agents send."""

from typing import Annotated, Literal

from pydantic import Base64Bytes, Field

from api.schemas.common import Sentence, Strict
from api.schemas.pod import PodStateName

TAIL_BYTES_MAX = 1024 * 1024
"""Of one read; who wants all of a log goes to where it is."""

StreamName = Literal["out", "err"]


class PodLog(Strict):
    """The end of what one process of a pod wrote; bytes that are no UTF-8 are replaced.

    `state` is that of the pod when it was asked for.
    """

    pod: str
    node: str
    attempt: int
    state: PodStateName
    process: int
    stream: StreamName
    text: str


class LogBody(Strict):
    """What an agent was asked for, in base 64, or why there is nothing."""

    content: Annotated[Base64Bytes, Field(max_length=2 * TAIL_BYTES_MAX)] = b""
    problem: Sentence = ""


class LogTaken(Strict):
    """What was taken of it."""

    id: int
    bytes: int
