"""Who sent a request, for routes that show what belongs to others."""

from typing import Annotated

from fastapi import Depends

from api.auth import ANYBODY, Caller


async def caller_of() -> Caller:
    """Anybody, as there are no tokens; a coroutine, as a plain function would cost a thread."""
    return ANYBODY


Called = Annotated[Caller, Depends(caller_of)]
