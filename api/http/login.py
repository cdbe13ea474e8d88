"""Logging in with a browser, and who one is."""

from typing import Annotated

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from api.auth import Caller
from api.auth.credentials import COOKIE, SECURE_COOKIE, Credentials, read_credentials
from api.http import example_bodies
from api.http import security_examples as examples
from api.http.answers import Json, answers, takes
from api.http.authenticate import request_id
from api.http.body import json_body, optional_json_body
from api.http.gate import Identity
from api.http.routing import Called, Served, make_router
from api.http.service import Service
from api.schemas.node import Nothing
from api.schemas.security import LoginBody, WhoAmI
from api.store.audit_log import Entry
from api.store.errors import Conflict, NotFound
from api.store.tokens import open_session, revoke

router = make_router("service")

NoBody = Annotated[Nothing, Depends(optional_json_body(Nothing))]
Login = Annotated[LoginBody, Depends(json_body(LoginBody))]


@router.post(
    "/login",
    summary="Log in with a browser",
    responses=answers(
        WhoAmI, examples.WHO, 400, 401, 403, 409, 413, 415, says="Who one is from now on."
    ),
    openapi_extra=takes(LoginBody, {"a token": examples.LOGIN}),
)
async def log_in(request: Request, service: Served, body: Login) -> Response:
    """Gives a cookie for a token: it ends with the token, after `session_s`, or at `POST /logout`.

    No script can read it, and browsers send it with requests of this service's own pages alone.
    """
    gate = service.gate
    if not gate.keyring.is_asking:
        raise Conflict("token", "this service asks nobody who they are; no login is needed")
    identity = await gate.identify_text(Credentials(body.token))
    now_s = service.clock.now_s()
    ends_s = now_s + service.settings.session_s
    if identity.expires_at is not None:
        ends_s = min(ends_s, identity.expires_at)

    def keep() -> str:
        parent = identity.token or None
        made = open_session(
            service.database, identity.caller, parent, now_s=now_s, expires_at=ends_s
        )
        gate.keyring.refresh()
        return made.text

    text = await run_in_threadpool(keep)
    answer = _who(service, identity.caller)
    _note(request, service, identity, answer)
    is_tls = request.url.scheme == "https"
    answer.set_cookie(
        SECURE_COOKIE if is_tls else COOKIE,
        text,
        max_age=max(1, int(ends_s - now_s)),
        path="/",
        secure=is_tls,
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post(
    "/logout",
    summary="Log out",
    responses=answers(Nothing, {}, 400, 401, 413, 415, says="Done."),
    openapi_extra=takes(Nothing, example_bodies.NOTHING_BODIES, required=False),
)
async def log_out(request: Request, service: Served, body: NoBody) -> Response:
    """Ends the session of the browser, everywhere and at once; nothing where there is none."""
    given = read_credentials(request.headers.raw)
    if given is not None and given.is_cookie:
        await run_in_threadpool(_end, service, given.text)
    answer = Json({})
    is_tls = request.url.scheme == "https"
    answer.delete_cookie(
        SECURE_COOKIE if is_tls else COOKIE,
        path="/",
        secure=is_tls,
        httponly=True,
        samesite="strict",
    )
    return answer


@router.get(
    "/v1/whoami",
    summary="Who one is",
    responses=answers(WhoAmI, examples.WHO, says="The caller."),
)
async def read_who_i_am(service: Served, caller: Called) -> Json:
    """The caller's name, role, and what they are bound to."""
    return _who(service, caller)


def _who(service: Service, caller: Caller) -> Json:
    return Json(
        {
            "asked": service.gate.keyring.is_asking,
            "name": caller.name,
            "role": caller.role.value,
            "namespaces": _sorted(caller.namespaces),
            "nodes": _sorted(caller.nodes),
        }
    )


def _sorted(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _end(service: Service, text: str) -> None:
    keyring = service.gate.keyring
    session = keyring.token_of(text)
    if session is None:
        return
    try:
        revoke(service.database, session.id, now_s=service.clock.now_s())
    except NotFound:
        return  # somebody else ended it meanwhile
    keyring.refresh()


def _note(request: Request, service: Service, identity: Identity, answer: Response) -> None:
    caller, id = identity.caller, request_id(request.scope)
    answer.headers["X-Request-Id"] = id
    address = request.client.host if request.client else ""
    now_s = service.clock.now_s()
    entry = Entry(now_s, caller.name, caller.role.value, "POST", "/login", 200, id, address)
    service.gate.audit.add(entry)
