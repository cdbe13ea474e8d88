"""Who sent a request, for routes that show what belongs to others."""

from typing import Annotated

from fastapi import Depends, Request

from api.auth import Caller
from api.auth.seen import CALLER_KEY, caller_in

__all__ = ["CALLER_KEY", "Called", "caller_in", "caller_of"]


async def caller_of(request: Request) -> Caller:
    """The request's caller; a coroutine, as a plain function would cost a thread."""
    return caller_in(request.scope)


Called = Annotated[Caller, Depends(caller_of)]
