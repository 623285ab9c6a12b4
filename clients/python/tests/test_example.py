"""The example of a chat, with stand-ins for FastAPI and OpenAI's client of the same shapes."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any, AsyncIterator

import pytest
from conftest import KEY

USAGE = SimpleNamespace(
    prompt_tokens=1_000,
    completion_tokens=400,
    total_tokens=1_400,
    prompt_tokens_details=SimpleNamespace(cached_tokens=800, audio_tokens=None),
    completion_tokens_details=SimpleNamespace(reasoning_tokens=300, audio_tokens=None),
)


class FakeApp:
    def __init__(self, **_: Any) -> None:
        self.routes: dict[str, Any] = {}

    def post(self, path: str) -> Any:
        return lambda handler: self.routes.setdefault(path, handler)


class FakeHTTPException(Exception):
    def __init__(self, status_code: int, detail: str) -> None:
        super().__init__(detail)
        self.status_code = status_code


class FakeStreamingResponse:
    def __init__(self, content: Any, media_type: str) -> None:
        self.body_iterator = content


class FakeOpenAI:
    """Streams two words, and then the usage in a chunk without choices, as the API does."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=self)
        self.fault: Exception | None = None

    async def create(self, **request: Any) -> AsyncIterator[Any]:
        assert request["stream_options"] == {"include_usage": True}
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[Any]:
        for word in ("Ships ", "move."):
            delta = SimpleNamespace(content=word)
            yield SimpleNamespace(choices=[SimpleNamespace(delta=delta)], usage=None)
            if self.fault is not None:
                raise self.fault
        yield SimpleNamespace(choices=[], usage=USAGE)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, members in {
        "fastapi": {"FastAPI": FakeApp, "HTTPException": FakeHTTPException},
        "fastapi.responses": {"StreamingResponse": FakeStreamingResponse},
        "openai": {"AsyncOpenAI": FakeOpenAI},
    }.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("PURSER_URL", os.environ["PURSER_URL"])
    monkeypatch.setenv("PURSER_KEY", KEY)
    sys.modules.pop("chat", None)
    return importlib.import_module("chat")


async def spent_of(example: Any, user: str) -> dict[str, Any]:
    events = (await example.purser.list_usage_events(user_id=user))["events"]
    assert len(events) == 1
    return events[0]["quantities"]


async def with_cents(example: Any, user: str) -> None:
    await example.purser.grant_credits(user_id=user, pack_id="starter")


async def test_charges_what_the_provider_counted_once(example: Any, user: str) -> None:
    await with_cents(example, user)
    response = await example.app.routes["/chat"](user_id=user, prompt="Tell me of ships.")
    assert [word async for word in response.body_iterator] == ["Ships ", "move."]
    cents = Decimal(200 * 30 + 800 * 3 + 400 * 250) / 1_000_000
    spent = await spent_of(example, user)
    assert (spent["tokens"], spent["cents"]) == (1_400, cents)
    async with example.lifespan(example.app):
        pass


@pytest.mark.parametrize("end", ["leaves", "is cancelled", "fails"])
async def test_charges_what_was_used_until_the_stream_ended_early(
    example: Any, user: str, end: str
) -> None:
    await with_cents(example, user)
    if end == "fails":
        example.openai.fault = ConnectionError("The provider is down.")
    response = await example.app.routes["/chat"](user_id=user, prompt="Tell me of ships.")
    words = response.body_iterator
    assert await words.__anext__() == "Ships "
    if end == "leaves":
        await words.aclose()
    else:
        error = ConnectionError if end == "fails" else asyncio.CancelledError
        with pytest.raises(error):
            await (words.__anext__() if end == "fails" else words.athrow(asyncio.CancelledError()))
    await example.purser.aclose()
    example = importlib.reload(example)
    # The estimates of the prompt, and of the word that was sent.
    assert (await spent_of(example, user))["tokens"] == 5 + 2


async def test_answers_402_before_the_stream_begins(example: Any, user: str) -> None:
    with pytest.raises(FakeHTTPException) as raised:
        await example.app.routes["/chat"](user_id=user, prompt="Tell me of ships.")
    assert raised.value.status_code == 402
