"""The world of the tests: the built Worker, which test/e2e/python-client.test.ts serves.

Each test of the fixture `purser` runs twice, with `Purser` and with `AsyncPurser`: `Threaded` gives
the first the form of the second. `faults` are the faults of the next requests.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import Any, AsyncIterator, Callable, Union

import httpx
import pytest
import pytest_asyncio

from purser import AsyncPurser, Purser, _exchange

URL = os.environ.get("PURSER_URL", "")
KEY = os.environ.get("PURSER_KEY", "")

Fault = Union[str, httpx.Response, None]

#: One for all tests: each reads the certificates anew, and they connect without TLS.
SSL_CONTEXT = httpx.create_ssl_context()


class FaultyTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends requests, and injects faults.

    `refused`: the request never arrives. `lost`: it arrives, but its response does not.
    `gateway`: a proxy responds with a page. A response replaces the server's. `None` is no fault.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.seen: list[httpx.Request] = []
        #: Called with each request before it is sent, to wait for something.
        self.before: Callable[[httpx.Request], Any] | None = None
        self._sync = httpx.HTTPTransport(verify=SSL_CONTEXT)
        self._async = httpx.AsyncHTTPTransport(verify=SSL_CONTEXT)

    def _begin(self, request: httpx.Request) -> Fault:
        self.seen.append(request)
        fault = self.faults.pop(0) if self.faults else None
        if fault == "refused":
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(502, text="<html>Bad gateway</html>") if fault == "gateway" else fault

    @staticmethod
    def _end(request: httpx.Request, fault: Fault) -> None:
        if fault == "lost":
            raise httpx.ReadError("lost", request=request)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._begin(request)
        if isinstance(fault, httpx.Response):
            return fault
        if self.before is not None:
            self.before(request)
        response = self._sync.handle_request(request)
        response.read()
        self._end(request, fault)
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._begin(request)
        if isinstance(fault, httpx.Response):
            return fault
        if self.before is not None:
            await self.before(request)
        response = await self._async.handle_async_request(request)
        await response.aread()
        self._end(request, fault)
        return response

    def paths(self) -> list[str]:
        """The last parts of the paths of all requests."""
        return [request.url.path.split("/")[-1] for request in self.seen]

    def close(self) -> None:
        self._sync.close()

    async def aclose(self) -> None:
        await self._async.aclose()


class ThreadedHold:
    """A blocking hold in the form of the other."""

    def __init__(self, hold: Any) -> None:
        self._hold = hold

    async def __aenter__(self) -> Any:
        return await asyncio.to_thread(self._hold.__enter__)

    async def __aexit__(self, *raised: Any) -> Any:
        return await asyncio.to_thread(self._hold.__exit__, *raised)


class Threaded:
    """A blocking client in the form of the other, so that both run the same tests."""

    def __init__(self, purser: Purser) -> None:
        self._purser = purser

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._purser, name)
        if not callable(method):
            return method
        if name == "hold":
            return lambda **fields: ThreadedHold(method(**fields))
        if name.startswith("iter_"):
            return lambda **fields: self._iterate(method(**fields))
        return lambda *fields, **named: asyncio.to_thread(method, *fields, **named)

    @staticmethod
    async def _iterate(entries: Any) -> AsyncIterator[Any]:
        end = object()
        while True:
            entry = await asyncio.to_thread(next, entries, end)
            if entry is end:
                return
            yield entry


class World:
    """Makes clients over one transport."""

    def __init__(self, kind: str, transport: FaultyTransport) -> None:
        self.kind = kind
        self.transport = transport
        self._http: list[Any] = []

    def client(self, *, key: str = KEY, **settings: Any) -> Any:
        settings = {"url": URL, "key": key, **settings}
        if self.kind == "asyncio":
            http = httpx.AsyncClient(transport=self.transport, timeout=30)
            self._http.append(http)
            return AsyncPurser(http_client=http, **settings)
        return Threaded(Purser(http_client=httpx.Client(transport=self.transport), **settings))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_exchange, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def transport() -> FaultyTransport:
    return FaultyTransport()


@pytest_asyncio.fixture(params=["blocking", "asyncio"])
async def world(request: Any, transport: FaultyTransport) -> AsyncIterator[World]:
    yield World(request.param, transport)
    transport.close()
    await transport.aclose()


@pytest.fixture
def purser(world: World) -> Any:
    return world.client()


@pytest.fixture
def faults(transport: FaultyTransport) -> list[Fault]:
    return transport.faults


@pytest.fixture
def user() -> str:
    """A user of this test alone."""
    return f"user-{uuid.uuid4()}"


async def remaining_of(purser: Any, user_id: str) -> list[Any]:
    """What remains of each balance."""
    answer = await purser.list_balances(user_id=user_id, include_expired=True)
    return [balance["remaining"] for balance in answer["credits"]]


async def with_tokens(purser: Any, user_id: str, tokens: Any) -> None:
    """Grants a user this number of tokens, and forgets the requests until then."""
    await purser.grant_credits(user_id=user_id, pack_id="tokens", quantity=tokens)
