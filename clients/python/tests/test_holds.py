"""Holds: after success, errors, cancellations and lost answers, the charge is the usage, once."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import Any, AsyncIterator

import anyio
import httpx
import pytest
from conftest import KEY, URL, FaultyTransport, World, remaining_of, with_tokens

from purser import AsyncPurser, InsufficientCredits, Purser, PurserError


class WorkError(Exception):
    pass


def chat(user: str, **fields: Any) -> dict[str, Any]:
    return {"user_id": user, "event": "chat", "quantities": {"tokens": 50}, **fields}


async def state_of(purser: Any, user: str) -> list[str]:
    reservations = await purser.list_reservations(user_id=user)
    return [reservation["status"] for reservation in reservations["reservations"]]


async def test_commits_the_usage_and_returns_the_rest(purser: Any, user: str) -> None:
    await with_tokens(purser, user, 100)
    async with purser.hold(properties={"chat": "c1"}, event_id=f"{user}-1", **chat(user)) as hold:
        assert await remaining_of(purser, user) == [50]
        assert [held["amount"] for held in hold.holds] == [50]
        hold.used({"tokens": 10})
        hold.used({"tokens": Decimal("12.5")}, model="large-2")
    assert (hold.usage["eventId"], hold.uncovered) == (f"{user}-1", None)
    event = await purser.list_usage_events(event_id=f"{user}-1")
    assert (event["model"], event["properties"]) == ("large-2", {"chat": "c1"})
    assert await remaining_of(purser, user) == [Decimal("87.5")]


async def test_commits_meters_by_the_price_list(purser: Any, user: str) -> None:
    await with_tokens(purser, user, 100)
    # The application prices this event: a token for each of input, and 4 for each of output.
    fields = {"user_id": user, "event": "priced", "meters": {"input": 10, "output": 5}}
    async with purser.hold(**fields) as hold:
        assert [held["amount"] for held in hold.holds] == [30]
        hold.used(meters={"input": 10, "output": Decimal("2.5")}, model="large-2")
    assert hold.usage["quantities"] == {"tokens": 20}
    assert hold.usage["meters"] == {"input": 10, "output": Decimal("2.5")}
    with pytest.raises(TypeError):
        async with purser.hold(**fields) as hold:
            hold.used({"tokens": 1}, meters={"input": 1})
    assert await remaining_of(purser, user) == [80]


async def test_says_what_no_balance_paid_for(purser: Any, user: str) -> None:
    await with_tokens(purser, user, 60)
    async with purser.hold(**chat(user)) as hold:
        hold.used({"tokens": 70})
    assert hold.uncovered is not None
    assert hold.uncovered["tokens"] == 10
    assert await remaining_of(purser, user) == [0]


@pytest.mark.parametrize(
    ("on_error", "tokens", "remaining", "state"),
    [("commit", 20, 80, "committed"), ("release", 20, 100, "released")],
)
async def test_commits_what_was_told_before_the_work_raised_unless_told_to_release(
    purser: Any, user: str, on_error: Any, tokens: int, remaining: int, state: str
) -> None:
    await with_tokens(purser, user, 100)
    with pytest.raises(WorkError):
        async with purser.hold(on_error=on_error, **chat(user)) as hold:
            hold.used({"tokens": tokens})
            raise WorkError
    assert await remaining_of(purser, user) == [remaining]
    assert await state_of(purser, user) == [state]


async def test_releases_when_the_work_told_no_usage(purser: Any, user: str) -> None:
    await with_tokens(purser, user, 100)
    with pytest.raises(WorkError):
        async with purser.hold(**chat(user)):
            raise WorkError
    with pytest.raises(RuntimeError, match="did not report its usage"):
        async with purser.hold(**chat(user)) as hold:
            pass
    with pytest.raises(RuntimeError, match="would be lost"):
        hold.used({"tokens": 1})
    assert await remaining_of(purser, user) == [100]
    assert await state_of(purser, user) == ["released", "released"]


async def test_raises_before_the_work_when_the_credits_do_not_suffice(
    purser: Any, user: str
) -> None:
    await with_tokens(purser, user, 10)
    with pytest.raises(InsufficientCredits):
        async with purser.hold(**chat(user)):
            pytest.fail("The work began.")
    assert await remaining_of(purser, user) == [10]


async def test_charges_once_when_answers_are_lost(
    purser: Any, faults: list[Any], user: str
) -> None:
    await with_tokens(purser, user, 100)
    faults.extend(["lost", "refused", "lost"])
    async with purser.hold(**chat(user)) as hold:
        faults.extend(["lost", "refused", "lost"])
        hold.used({"tokens": 30})
    assert faults == []
    assert await remaining_of(purser, user) == [70]
    assert len((await purser.list_usage_events(user_id=user))["events"]) == 1


async def test_leaves_a_hold_whose_commit_fails_for_good_to_its_expiry(
    world: World, faults: list[Any], user: str, caplog: pytest.LogCaptureFixture
) -> None:
    purser = world.client(retries=0)
    await with_tokens(purser, user, 100)
    with pytest.raises(PurserError, match="no_answer"):
        async with purser.hold(**chat(user)) as hold:
            hold.used({"tokens": 30})
            faults.append("refused")
    # The error of the work goes on, and the failure of the commit is logged.
    with pytest.raises(WorkError):
        async with purser.hold(**chat(user)) as hold:
            hold.used({"tokens": 30})
            faults.append("refused")
            raise WorkError
    assert f"The hold {hold.reservation_id} was not committed" in caplog.text
    assert await state_of(purser, user) == ["open", "open"]
    assert await remaining_of(purser, user) == [0]


async def test_rejects_numbers_that_are_not_finite_before_the_work_and_at_its_report(
    purser: Any, transport: FaultyTransport, user: str
) -> None:
    await with_tokens(purser, user, 100)
    transport.seen.clear()
    with pytest.raises(ValueError, match=r"properties\.score is nan"):
        async with purser.hold(properties={"score": float("nan")}, **chat(user)):
            pytest.fail("The work began.")
    assert transport.seen == []
    with pytest.raises(ValueError, match=r"quantities\.tokens is inf"):
        async with purser.hold(**chat(user)) as hold:
            hold.used({"tokens": 3})
            hold.used({"tokens": float("inf")})
    # The report before it counts.
    assert await remaining_of(purser, user) == [97]


async def test_extends_the_hold_while_the_work_runs(
    purser: Any, transport: FaultyTransport, user: str
) -> None:
    await with_tokens(purser, user, 100)
    async with purser.hold(expires_in_seconds=2, **chat(user)) as hold:
        while "extend" not in transport.paths():
            await asyncio.sleep(0.05)
        hold.used({"tokens": 40})
    assert await remaining_of(purser, user) == [60]


def test_commits_after_ctrl_c_and_when_a_generator_is_closed(user: str) -> None:
    with Purser(url=URL, key=KEY) as purser:
        purser.grant_credits(user_id=user, pack_id="tokens", quantity=100)
        with pytest.raises(KeyboardInterrupt), purser.hold(**chat(user)) as hold:
            hold.used({"tokens": 10})
            raise KeyboardInterrupt

        def stream() -> Any:
            with purser.hold(**chat(user)) as hold:
                hold.used({"tokens": 20})
                yield "word"

        words = stream()
        next(words)
        words.close()
        balances = purser.list_balances(user_id=user)["credits"]
        assert [balance["remaining"] for balance in balances] == [70]


def test_lets_threads_share_a_client(user: str) -> None:
    with Purser(url=URL, key=KEY) as purser:
        purser.grant_credits(user_id=user, pack_id="tokens", quantity=100)

        def work() -> None:
            with purser.hold(**chat(user, quantities={"tokens": 10})) as hold:
                hold.used({"tokens": 7})

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        balances = purser.list_balances(user_id=user)["credits"]
        assert [balance["remaining"] for balance in balances] == [100 - 8 * 7]


@pytest.fixture
def aio(transport: FaultyTransport) -> AsyncPurser:
    return AsyncPurser(url=URL, key=KEY, http_client=httpx.AsyncClient(transport=transport))


async def test_commits_what_was_told_when_the_task_is_cancelled(
    aio: AsyncPurser, user: str
) -> None:
    await with_tokens(aio, user, 100)
    has_begun = asyncio.Event()

    async def work() -> None:
        async with aio.hold(**chat(user)) as hold:
            hold.used({"tokens": 20})
            has_begun.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await aio.aclose()
    assert await remaining_of(aio, user) == [80]


async def test_releases_when_the_task_is_cancelled_before_it_told_usage(
    aio: AsyncPurser, user: str
) -> None:
    await with_tokens(aio, user, 100)
    with pytest.raises(asyncio.CancelledError):
        async with aio.hold(**chat(user)):
            raise asyncio.CancelledError
    assert await remaining_of(aio, user) == [100]
    assert await state_of(aio, user) == ["released"]


async def test_commits_what_was_told_when_asyncio_times_out(aio: AsyncPurser, user: str) -> None:
    await with_tokens(aio, user, 100)

    async def work() -> None:
        async with aio.hold(**chat(user)) as hold:
            hold.used({"tokens": 20})
            is_told.set()
            await asyncio.Event().wait()

    is_told = asyncio.Event()
    task = asyncio.ensure_future(work())
    await is_told.wait()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(task, 0.01)
    assert await remaining_of(aio, user) == [80]


async def test_commits_in_the_background_when_it_is_cancelled_again_during_the_commit(
    aio: AsyncPurser, transport: FaultyTransport, user: str
) -> None:
    await with_tokens(aio, user, 100)
    is_committing, may_go_on = asyncio.Event(), asyncio.Event()

    async def before(request: httpx.Request) -> None:
        if request.url.path.endswith("/commit"):
            is_committing.set()
            await may_go_on.wait()

    transport.before = before

    async def work() -> None:
        async with aio.hold(**chat(user)) as hold:
            hold.used({"tokens": 20})
            raise asyncio.CancelledError

    task = asyncio.ensure_future(work())
    await is_committing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_go_on.set()
    await aio.aclose()
    assert await remaining_of(aio, user) == [80]


async def test_commits_when_the_scope_of_a_web_framework_is_cancelled(
    aio: AsyncPurser, user: str
) -> None:
    # Starlette's scopes, which are anyio's, cancel each await again until the block is left.
    await with_tokens(aio, user, 100)
    with anyio.CancelScope() as scope:
        async with aio.hold(**chat(user)) as hold:
            hold.used({"tokens": 20})
            scope.cancel()
            await asyncio.sleep(60)
    await aio.aclose()
    assert await remaining_of(aio, user) == [80]


async def test_returns_the_credits_when_it_is_cancelled_while_it_reserves(
    aio: AsyncPurser, transport: FaultyTransport, user: str
) -> None:
    await with_tokens(aio, user, 100)
    is_reserving, may_go_on = asyncio.Event(), asyncio.Event()

    async def before(request: httpx.Request) -> None:
        if request.url.path.endswith("/reservations"):
            is_reserving.set()
            await may_go_on.wait()

    transport.before = before

    async def work() -> None:
        async with aio.hold(on_expiry="charge", **chat(user)):
            pytest.fail("The work began.")

    task = asyncio.ensure_future(work())
    await is_reserving.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_go_on.set()
    await aio.aclose()
    transport.before = None
    assert await state_of(aio, user) == ["released"]
    assert await remaining_of(aio, user) == [100]


async def test_closing_a_client_does_not_wait_for_work_whose_commit_then_fails(user: str) -> None:
    aio = AsyncPurser(url=URL, key=KEY)
    await with_tokens(aio, user, 100)
    with pytest.raises(RuntimeError, match="closed"):
        async with aio.hold(**chat(user)) as hold:
            hold.used({"tokens": 20})
            await asyncio.wait_for(aio.aclose(), 60)
    async with AsyncPurser(url=URL, key=KEY) as another:
        assert await state_of(another, user) == ["open"]


async def test_commits_when_an_asynchronous_generator_is_closed(
    aio: AsyncPurser, user: str
) -> None:
    await with_tokens(aio, user, 100)

    async def stream() -> AsyncIterator[str]:
        async with aio.hold(**chat(user)) as hold:
            hold.used({"tokens": 20})
            yield "word"

    words = stream()
    await words.__anext__()
    await words.aclose()  # type: ignore[attr-defined]
    assert await remaining_of(aio, user) == [80]
