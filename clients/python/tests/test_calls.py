"""Calls: what they send and return, their errors, and their retries."""

from __future__ import annotations

import os
import pickle
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import httpx
import pytest
from conftest import FaultyTransport, World, remaining_of, with_tokens

from purser import InsufficientCredits, Purser, PurserError, about

HTML = "<html>Bad gateway</html>"


def error_response(status: int, code: str, **headers: str) -> httpx.Response:
    body = {"error": {"code": code, "message": "A message.", "requestId": "req_1"}}
    return httpx.Response(status, json=body, headers=headers)


async def test_grants_debits_and_lists_balances_with_exact_amounts(purser: Any, user: str) -> None:
    granted = await purser.grant_credits(
        user_id=user, pack_id="tokens", quantity=Decimal("100.5"), external_ref="order-1"
    )
    assert granted["remaining"] == Decimal("100.5")
    event = {"user_id": user, "event": "chat", "event_id": f"{user}-1"}
    paid = await purser.record_usage_event(quantities={"tokens": 0.1 + 0.2}, **event)
    assert [debit["amount"] for debit in paid["debits"]] == [Decimal("0.3")]
    assert await remaining_of(purser, user) == [Decimal("100.2")]
    assert paid["uncovered"] is None
    assert not about(paid).is_replayed
    again = await purser.record_usage_event(quantities={"tokens": 0.1 + 0.2}, **event)
    assert about(again).is_replayed
    assert again == paid
    assert about(again).request_id != about(paid).request_id


async def test_keeps_every_digit_of_a_sum_that_a_float_would_round(purser: Any, user: str) -> None:
    largest = Decimal("8796093022207.999")
    for _ in range(3):
        await purser.record_usage_event(
            user_id=user, event="chat", quantities={"tokens": largest}, on_shortage="partial"
        )
    answer = await purser.get_usage_totals(user_id=user)
    totals = {total["unit"]: total["amount"] for total in answer["totals"]}
    assert totals["tokens"] == Decimal("26388279066623.997")
    assert totals["tokens"] != float(Decimal("26388279066623.997"))
    assert isinstance(totals["count"], int)


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), Decimal("-Infinity")])
async def test_rejects_a_number_that_is_not_finite_before_it_is_sent(
    purser: Any, transport: FaultyTransport, amount: Any
) -> None:
    with pytest.raises(ValueError, match=r"record_usage_events: \[0\].quantities.tokens is"):
        await purser.record_usage_events(
            [{"userId": "u", "event": "chat", "quantities": {"tokens": amount}}]
        )
    assert transport.seen == []


async def test_rejects_a_time_without_a_zone_and_an_empty_id_before_they_are_sent(
    purser: Any, transport: FaultyTransport
) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        await purser.get_usage_totals(user_id="u", from_=datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="no time zone"):
        await purser.grant_credits(user_id="u", pack_id="tokens", expires_at=datetime(2030, 1, 1))
    for wrong in ("", ".", ".."):
        with pytest.raises(ValueError, match="needs reservationId"):
            await purser.get_reservation(reservation_id=wrong)
    assert transport.seen == []


async def test_sends_dates_and_null_and_leaves_out_what_is_not_given(
    purser: Any, user: str
) -> None:
    until = datetime(2031, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    fields = {"user_id": user, "pack_id": "tokens", "quantity": 1}
    assert (await purser.grant_credits(expires_at=until, **fields))["expiresAt"] == (
        "2031-05-01T12:00:00.000Z"
    )
    assert (await purser.grant_credits(expires_at=None, **fields))["expiresAt"] is None
    with pytest.raises(PurserError) as raised:
        # None is null, which Purser rejects here: a lost reference must not cost the idempotency.
        await purser.grant_credits(external_ref=None, **fields)
    assert (raised.value.code, raised.value.param) == ("invalid_request", "externalRef")


@pytest.mark.parametrize("lost", [["lost"], ["refused", "lost"], ["lost", "gateway", "lost"]])
async def test_charges_once_when_answers_are_lost_without_an_id_of_the_caller(
    purser: Any, faults: list[Any], user: str, lost: list[Any]
) -> None:
    await with_tokens(purser, user, 100)
    faults.extend(lost)
    await purser.record_usage_event(user_id=user, event="chat", quantities={"tokens": 10})
    faults.extend(lost)
    events = [{"userId": user, "event": "chat", "quantities": {"tokens": n}} for n in (1, 2)]
    answer = await purser.record_usage_events(events)
    assert [result["debits"][0]["amount"] for result in answer["results"]] == [1, 2]
    assert all("eventId" not in event for event in events)
    faults.extend(lost)
    await purser.grant_credits(user_id=user, pack_id="tokens", quantity=5)
    assert sum(await remaining_of(purser, user)) == 100 - 10 - 3 + 5
    assert faults == []


async def test_repeats_no_call_that_could_have_an_effect_twice(
    purser: Any, transport: FaultyTransport, faults: list[Any], user: str
) -> None:
    consent = {"distinct_id": user, "purpose": "analytics", "decision": "granted"}
    for fault, code in (("lost", "no_answer"), ("gateway", "unknown_answer")):
        transport.seen.clear()
        faults.append(fault)
        with pytest.raises(PurserError) as raised:
            await purser.record_consent(**consent)
        assert raised.value.code == code
        assert transport.paths() == ["consent"]
    # A request that was rejected with 429 had no effect.
    faults.append(error_response(429, "rate_limited", **{"retry-after": "0"}))
    assert (await purser.record_consent(**consent))["decision"] == "granted"


async def test_waits_as_long_as_retry_after_says_and_not_longer_than_a_minute(
    purser: Any, transport: FaultyTransport, faults: list[Any], user: str
) -> None:
    soon = (datetime.now(timezone.utc) - timedelta(seconds=5)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    faults.append(error_response(503, "temporarily_unavailable", **{"retry-after": "0"}))
    faults.append(error_response(429, "rate_limited", **{"retry-after": soon}))
    assert (await purser.list_balances(user_id=user))["credits"] == []
    assert len(transport.seen) == 3
    for fault in (
        error_response(429, "usage_limit_reached", **{"retry-after": "86400"}),
        error_response(503, "temporarily_unavailable"),
        error_response(500, "internal_error"),
    ):
        transport.seen.clear()
        faults.append(fault)
        with pytest.raises(PurserError) as raised:
            await purser.list_balances(user_id=user)
        assert (raised.value.status, raised.value.request_id) == (fault.status_code, "req_1")
        assert len(transport.seen) == 1


async def test_repeats_a_list_of_which_an_event_met_a_temporary_fault(
    purser: Any, faults: list[Any], transport: FaultyTransport, user: str
) -> None:
    await with_tokens(purser, user, 10)
    transport.seen.clear()
    events = [{"userId": user, "event": "chat", "quantities": {"tokens": 4}}]
    faulty = {"results": [{"eventId": "e", "error": {"code": "temporarily_unavailable"}}]}
    faults.append(httpx.Response(200, json=faulty, headers={"retry-after": "0"}))
    answer = await purser.record_usage_events(events)
    assert answer["results"][0]["debits"][0]["amount"] == 4
    first, second = transport.seen
    assert first.content == second.content


async def test_gives_up_after_the_retries_with_the_host_and_the_cause(
    world: World, transport: FaultyTransport, faults: list[Any]
) -> None:
    purser = world.client(retries=1)
    faults.extend(["refused", "refused", "refused"])
    with pytest.raises(
        PurserError, match="no_answer: GET /api/v1/credits got no answer from "
    ) as r:
        await purser.list_balances(user_id="secret-user")
    assert "secret-user" not in str(r.value)
    assert isinstance(r.value.__cause__, httpx.ConnectError)
    assert len(transport.seen) == 2


async def test_takes_an_answer_of_another_server_for_an_error(
    purser: Any, faults: list[Any]
) -> None:
    for fault in (
        httpx.Response(404, text=HTML),
        httpx.Response(200, text=HTML),
        httpx.Response(200, text='{"credits": NaN}'),
        httpx.Response(302, headers={"location": "https://elsewhere.example"}),
    ):
        faults.append(fault)
        with pytest.raises(PurserError) as raised:
            await purser.list_balances(user_id="u")
        assert (raised.value.code, raised.value.status) == ("unknown_answer", fault.status_code)


async def test_raises_insufficient_credits_with_the_rest_and_the_reasons(
    purser: Any, user: str
) -> None:
    await with_tokens(purser, user, 5)
    with pytest.raises(InsufficientCredits) as raised:
        await purser.record_usage_event(user_id=user, event="chat", quantities={"tokens": 12})
    error = raised.value
    assert (error.code, error.status) == ("insufficient_credits", 402)
    assert error.uncovered["tokens"] == 7
    assert [balance["reason"] for balance in error.skipped] == ["exhausted"]
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.details, str(copy)) == (InsufficientCredits, error.details, str(error))
    assert await remaining_of(purser, user) == [5]


async def test_raises_an_error_with_its_code_and_details(purser: Any, user: str) -> None:
    await with_tokens(purser, user, 5)
    event = {"event_id": f"{user}-1", "user_id": user, "event": "chat"}
    await purser.record_usage_event(quantities={"tokens": 1}, **event)
    with pytest.raises(PurserError) as raised:
        await purser.record_usage_event(quantities={"tokens": 2}, **event)
    assert (raised.value.code, raised.value.status) == ("idempotency_conflict", 409)
    assert raised.value.details == {"differs": ["quantities"]}
    with pytest.raises(PurserError) as raised:
        await purser.record_usage_event(user_id=user, event="limited", quantities={"count": 9})
    assert (raised.value.code, raised.value.status) == ("usage_limit_reached", 429)
    assert raised.value.details["amount"] == 3


@pytest.mark.parametrize("key", ["", "sk_live_\n", "sk_live_ä"])
def test_rejects_a_key_that_no_header_can_carry_without_showing_it(key: str) -> None:
    with pytest.raises(ValueError, match="needs a key") as raised:
        Purser(url="https://purser.example", key=key)
    assert key == "" or key not in str(raised.value)


@pytest.mark.parametrize("token", ["a.b\nc", "a.b.c\n", " a.b.c", "a.b.ä"])
def test_rejects_a_token_that_no_header_can_carry_without_showing_it(token: str) -> None:
    http = httpx.Client(transport=httpx.MockTransport(lambda _: pytest.fail("Nothing is sent.")))
    page = Purser(url="https://purser.example", key="pk_live_x", user_token=token, http_client=http)
    with pytest.raises(ValueError, match="user_token is no JWT") as raised:
        page.list_balances(user_id="u")
    assert token not in str(raised.value)


async def test_rejects_a_key_of_the_wrong_kind_before_anything_is_sent(
    world: World, transport: FaultyTransport
) -> None:
    page = world.client(key="pk_live_x")
    with pytest.raises(ValueError, match="grant_credits needs a secret key"):
        await page.grant_credits(user_id="u", pack_id="tokens")
    with pytest.raises(ValueError, match="needs user_token"):
        await page.list_balances(user_id="u")
    with pytest.raises(ValueError, match="needs a url"):
        world.client(url="purser.example")
    assert transport.seen == []


async def test_reads_balances_with_a_publishable_key_and_a_users_token(world: World) -> None:
    key = os.environ["PURSER_PUBLISHABLE_KEY"]
    token = os.environ["PURSER_USER_TOKEN"]
    page = world.client(key=key, user_token=lambda: token)
    assert (await page.list_balances(user_id="python-user"))["credits"] == []
    with pytest.raises(PurserError) as raised:
        await page.list_balances(user_id="another-user")
    assert raised.value.code == "forbidden"


async def test_iterates_over_all_pages(purser: Any, user: str) -> None:
    await with_tokens(purser, user, 100)
    for n in range(5):
        await purser.record_usage_event(
            event_id=f"{user}-{n}", user_id=user, event="chat", quantities={"tokens": n + 1}
        )
    entries = [entry async for entry in purser.iter_ledger_entries(user_id=user, limit=2)]
    assert sorted(entry["delta"] for entry in entries) == [-5, -4, -3, -2, -1, 100]
    events = [event async for event in purser.iter_usage_events(user_id=user, limit=2)]
    assert len({event["eventId"] for event in events}) == 5
    page = await purser.list_usage_events(user_id=user, limit=2)
    assert (len(page["events"]), page["nextCursor"] is None) == (2, False)
    one = await purser.list_usage_events(event_id=f"{user}-3")
    assert (one["userId"], one["quantities"]["tokens"]) == (user, 4)


async def test_sends_the_bookmark_of_a_write_with_the_next_read(
    world: World, purser: Any, transport: FaultyTransport, user: str
) -> None:
    await with_tokens(purser, user, 1)
    bookmark = purser.bookmark
    assert bookmark is not None
    await remaining_of(purser, user)
    sent = [request.headers.get("x-d1-bookmark") for request in transport.seen]
    assert sent == [None, bookmark]


async def test_passes_warnings_on(world: World, user: str) -> None:
    heard: list[tuple[str, str]] = []
    purser = world.client(on_warning=lambda warning, name, _: heard.append((name, warning)))
    await purser.grant_credits(user_id=user, pack_id="starter", quantity=3)
    assert [name for name, _ in heard] == ["grant_credits"]


async def test_reports_a_deletion_whose_answer_was_lost_as_done(
    purser: Any, faults: list[Any], user: str
) -> None:
    faults.append("lost")
    faults.append(error_response(404, "not_found"))
    limit_id = os.environ["PURSER_LIMIT_ID"]
    assert await purser.remove_own_usage_limit(limit_id=limit_id, user_id=user) == {}


async def test_refunds_revokes_plans_and_sets_limits(purser: Any, user: str) -> None:
    granted = await purser.grant_credits(
        user_id=user, pack_id="tokens", quantity=10, external_ref=f"order-{user}"
    )
    refund = {"user_id": user, "external_ref": f"order-{user}", "refund_ref": "refund-1"}
    refunded = await purser.refund_credits(share={"part": 250, "of": 1000}, **refund)
    assert [balance["taken"] for balance in refunded["balances"]] == [Decimal("2.5")]
    plan = await purser.preview_debit(user_id=user, event="chat", quantities={"tokens": 8})
    assert plan["uncovered"]["tokens"] == Decimal("0.5")
    revoked = await purser.revoke_balance(balance_id=granted["balanceId"], reason="By request.")
    assert revoked == {"balanceId": granted["balanceId"], "remaining": 0}
    limit_id = os.environ["PURSER_LIMIT_ID"]
    own = await purser.set_own_usage_limit(limit_id=limit_id, user_id=user, amount=None)
    assert own["amount"] is None
    limits = await purser.get_usage_limits(user_id=user)
    assert [limit["amount"] for limit in limits["limits"]] == [None]


async def test_exports_and_erases_a_person(purser: Any, user: str) -> None:
    await with_tokens(purser, user, 1)
    link = await purser.create_export_link(distinct_id=user)
    assert link["downloadUrl"].startswith("http")
    assert (await purser.revoke_export_links(distinct_id=user))["revoked"] == 1
    preview = await purser.erase_person(distinct_id=user, dry_run=True)
    assert "erasureId" not in preview


async def test_has_recurring_grants_and_a_reservation_by_hand(purser: Any, user: str) -> None:
    made = await purser.create_recurring_grant(
        recurring_id=f"rec_{user}", user_id=user, pack_id="starter", every="month"
    )
    assert made["status"] == "active"
    listed = await purser.list_recurring_grants(user_id=user)
    assert [grant["recurringId"] for grant in listed["recurring"]] == [f"rec_{user}"]
    ended = await purser.cancel_recurring_grant(recurring_id=f"rec_{user}", at="now")
    assert ended["status"] == "ended"
    await with_tokens(purser, user, 10)
    held = await purser.create_reservation(user_id=user, event="chat", quantities={"tokens": 4})
    released = await purser.release_reservation(reservation_id=held["reservationId"])
    assert released["status"] == "released"
    listed = await purser.list_reservations(user_id=user)
    assert [each["status"] for each in listed["reservations"]] == ["released"]
