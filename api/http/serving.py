"""The HTTP server, which ends what waits on purpose before it waits for requests to end."""

import socket

import uvicorn
from starlette.concurrency import run_in_threadpool

from api.http.service import Service


class Server(uvicorn.Server):
    """uvicorn's, for one service."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # The app is told only once all answers are complete, and a watch never is by itself.
        self._service.feed.close()
        await run_in_threadpool(self._service.waiters.close)
        await super().shutdown(sockets)
