"""The two clients. Both run the same calls: one blocks, one awaits."""

from __future__ import annotations

import asyncio
import time
from typing import Any, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence

import httpx

from ._exchange import OnWarning, Pause, Send, Session, Step, Steps, exchange, log_once, logger
from ._operations import OPERATIONS, AsyncOperations, Operations
from ._request import request_of

TIMEOUT_SECONDS = 30.0

Fields = Mapping[str, Any]


class _Client:
    """The settings of both clients, and the steps of their calls."""

    def __init__(
        self,
        *,
        url: str,
        key: str,
        user_token: str | Callable[[], str] | None,
        retries: int,
        on_warning: OnWarning,
    ) -> None:
        self._session = Session(url, key, user_token, retries, on_warning)

    @property
    def bookmark(self) -> str | None:
        """The newest state of the database that an answer of this client showed.

        Later reads show at least this state. Copy it to another client, so that its reads do too.
        """
        return self._session.bookmark

    @bookmark.setter
    def bookmark(self, bookmark: str | None) -> None:
        self._session.bookmark = bookmark

    def _steps(self, name: str, fields: Fields | Sequence[Fields]) -> Steps:
        return exchange(self._session, request_of(name, OPERATIONS[name], fields))


class Purser(_Client, Operations):
    """A client for credits, usage, consent, exports and erasures of one environment.

    Threads may share it. Close it with `close()`, or use it in a `with` statement.
    """

    def __init__(
        self,
        *,
        url: str,
        key: str,
        user_token: str | Callable[[], str] | None = None,
        retries: int = 4,
        timeout: float = TIMEOUT_SECONDS,
        on_warning: OnWarning = log_once,
        http_client: httpx.Client | None = None,
    ) -> None:
        """Makes a client.

        `url` is the address of Purser, `key` a secret key. With a publishable key, `user_token` is
        the user's JWT from your own sign-in, or a function that returns it. `timeout` is how many
        seconds a try may wait for the server. `on_warning` gets each warning, the operation and the
        request's id. `http_client` replaces the client of httpx, with its own timeout.
        """
        super().__init__(
            url=url, key=key, user_token=user_token, retries=retries, on_warning=on_warning
        )
        self._owns_http = http_client is None
        self._http = httpx.Client(timeout=timeout) if http_client is None else http_client

    def __enter__(self) -> Purser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        if self._owns_http:
            self._http.close()

    def _do(self, step: Step) -> httpx.Response | httpx.RequestError | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return self._http.request(**_arguments(step))
        except httpx.RequestError as error:
            return error

    def _run(self, steps: Steps) -> Any:
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = self._do(step)

    def _call(self, name: str, fields: Fields | Sequence[Fields]) -> Any:
        return self._run(self._steps(name, fields))

    def _entries(self, name: str, fields: Fields) -> Iterator[Any]:
        while True:
            page = self._call(name, fields)
            yield from page[OPERATIONS[name].list or ""]
            if page["nextCursor"] is None:
                return
            fields = {**fields, "cursor": page["nextCursor"]}


class AsyncPurser(_Client, AsyncOperations):
    """The same client for asyncio. Close it with `aclose()`, or use it in `async with`."""

    def __init__(
        self,
        *,
        url: str,
        key: str,
        user_token: str | Callable[[], str] | None = None,
        retries: int = 4,
        timeout: float = TIMEOUT_SECONDS,
        on_warning: OnWarning = log_once,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        """Makes a client. The arguments are those of `Purser`."""
        super().__init__(
            url=url, key=key, user_token=user_token, retries=retries, on_warning=on_warning
        )
        self._owns_http = http_client is None
        self._http = httpx.AsyncClient(timeout=timeout) if http_client is None else http_client
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> AsyncPurser:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Waits for the commits of cancelled tasks, and closes the connections."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        if self._owns_http:
            await self._http.aclose()

    async def _do(self, step: Step) -> httpx.Response | httpx.RequestError | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return await self._http.request(**_arguments(step))
        except httpx.RequestError as error:
            return error

    async def _run(self, steps: Steps) -> Any:
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = await self._do(step)

    async def _call(self, name: str, fields: Fields | Sequence[Fields]) -> Any:
        return await self._run(self._steps(name, fields))

    async def _entries(self, name: str, fields: Fields) -> AsyncIterator[Any]:
        while True:
            page = await self._call(name, fields)
            for entry in page[OPERATIONS[name].list or ""]:
                yield entry
            if page["nextCursor"] is None:
                return
            fields = {**fields, "cursor": page["nextCursor"]}

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a task of its own, which `aclose` waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _outlive(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Awaits work that goes on in the background when the caller is cancelled meanwhile."""
        task = self._start(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.warning("After its caller was cancelled: %s", task.exception())


def _arguments(step: Send) -> dict[str, Any]:
    return {
        "method": step.method,
        "url": step.url,
        "headers": dict(step.headers),
        "content": step.body,
    }
