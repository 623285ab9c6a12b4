"""A method for each operation, blocking and not.

Made from openapi.json by scripts/generate.mjs.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Iterator,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Union,
    cast,
    overload,
)

from ._hold import AsyncHold, Hold
from ._request import NOT_GIVEN, NotGiven, Operation
from .types import (
    Amount,
    ConsentDecision,
    ConsentEntry,
    CreatedReservation,
    CreditBalanceList,
    CreditUser,
    CreditUserList,
    DebitPlan,
    ErasedPerson,
    Erasure,
    ErasureReason,
    Every,
    ExportLink,
    GrantResult,
    GrantSource,
    GroupedUsageTotals,
    Health,
    JsonSchemaDocument,
    LedgerEntry,
    LedgerPage,
    LedgerVerification,
    Meters,
    NamesOfUnits,
    OnExpiry,
    OnShortage,
    OpenApiDocument,
    PersonExport,
    RecurringGrant,
    RecurringGrantList,
    RefundResult,
    RefundShare,
    Reservation,
    ReservationList,
    ReservationRelease,
    ReservationStatus,
    RevokedExportLinks,
    RevokeResult,
    StoredUsageEvent,
    Time,
    UsageEvent,
    UsageEventList,
    UsageEventOfUser,
    UsageEventPage,
    UsageEventResult,
    UsageMembers,
    UsageOfMember,
    UsagePrice,
    UsageQuantities,
    UsageTotals,
    UserUsageLimit,
    UserUsageLimits,
)

if TYPE_CHECKING:
    from ._client import AsyncPurser, Purser

OPERATIONS = {
    "get_unit_names": Operation("GET", "/api/v1/unit-names", "sk pk"),
    "grant_credits": Operation(
        "POST",
        "/api/v1/credits/grant",
        "sk",
        is_idempotent=True,
        id_field="externalRef",
    ),
    "revoke_balance": Operation("POST", "/api/v1/credits/revoke", "sk", is_idempotent=True),
    "refund_credits": Operation("POST", "/api/v1/credits/refund", "sk", is_idempotent=True),
    "create_recurring_grant": Operation(
        "POST",
        "/api/v1/credits/recurring",
        "sk",
        is_idempotent=True,
        id_field="recurringId",
        id_prefix="rec_",
    ),
    "list_recurring_grants": Operation(
        "GET",
        "/api/v1/credits/recurring",
        "sk pk",
        takes_user_token=True,
    ),
    "cancel_recurring_grant": Operation(
        "POST",
        "/api/v1/credits/recurring/{recurringId}/cancel",
        "sk",
        is_idempotent=True,
    ),
    "resume_recurring_grant": Operation(
        "POST",
        "/api/v1/credits/recurring/{recurringId}/resume",
        "sk",
    ),
    "list_balances": Operation("GET", "/api/v1/credits", "sk pk", takes_user_token=True),
    "list_ledger_entries": Operation("GET", "/api/v1/credits/history", "sk", list="entries"),
    "list_credit_users": Operation("GET", "/api/v1/credits/users", "sk", list="users"),
    "preview_debit": Operation("POST", "/api/v1/credits/plan", "sk", is_idempotent=True),
    "verify_user": Operation("GET", "/api/v1/credits/verify", "sk", list="flaws"),
    "record_usage_event": Operation(
        "POST",
        "/api/v1/usage/events",
        "sk",
        is_idempotent=True,
        id_field="eventId",
    ),
    "list_usage_events": Operation(
        "GET",
        "/api/v1/usage/events",
        "sk pk",
        list="events",
        takes_user_token=True,
    ),
    "record_usage_events": Operation(
        "POST",
        "/api/v1/usage/events/batch",
        "sk",
        is_idempotent=True,
        id_field="eventId",
    ),
    "preview_price": Operation("POST", "/api/v1/usage/price", "sk", is_idempotent=True),
    "list_usage_members": Operation("GET", "/api/v1/usage/members", "sk", list="members"),
    "get_usage_totals": Operation("GET", "/api/v1/usage", "sk pk", takes_user_token=True),
    "create_reservation": Operation(
        "POST",
        "/api/v1/usage/reservations",
        "sk",
        is_idempotent=True,
        id_field="reservationId",
        id_prefix="res_",
    ),
    "list_reservations": Operation("GET", "/api/v1/usage/reservations", "sk", list="reservations"),
    "get_reservation": Operation("GET", "/api/v1/usage/reservations/{reservationId}", "sk"),
    "commit_reservation": Operation(
        "POST",
        "/api/v1/usage/reservations/{reservationId}/commit",
        "sk",
        is_idempotent=True,
        id_field="eventId",
    ),
    "extend_reservation": Operation(
        "POST",
        "/api/v1/usage/reservations/{reservationId}/extend",
        "sk",
        is_idempotent=True,
    ),
    "release_reservation": Operation(
        "POST",
        "/api/v1/usage/reservations/{reservationId}/release",
        "sk",
        is_idempotent=True,
    ),
    "get_usage_limits": Operation("GET", "/api/v1/usage/limits", "sk pk", takes_user_token=True),
    "set_own_usage_limit": Operation("PUT", "/api/v1/usage/limits/{limitId}/amount", "sk"),
    "remove_own_usage_limit": Operation("DELETE", "/api/v1/usage/limits/{limitId}/amount", "sk"),
    "record_consent": Operation("POST", "/api/v1/consent", "sk pk", takes_user_token=True),
    "erase_person": Operation("POST", "/api/v1/erase-person", "sk", is_idempotent=True),
    "get_erasure": Operation("GET", "/api/v1/erasures/{erasureId}", "sk"),
    "lift_erasure": Operation(
        "POST",
        "/api/v1/erasures/{erasureId}/lift",
        "sk",
        is_idempotent=True,
    ),
    "create_export_link": Operation("POST", "/api/v1/export-person", "sk", is_idempotent=True),
    "revoke_export_links": Operation(
        "POST",
        "/api/v1/export-person/revoke",
        "sk",
        is_idempotent=True,
    ),
    "download_export": Operation("GET", "/api/v1/export-download", ""),
    "get_export_document_schema": Operation("GET", "/api/v1/export-document.schema.json", ""),
    "check_health": Operation("GET", "/health", ""),
    "get_open_api": Operation("GET", "/api/v1/openapi.json", ""),
}


class Operations:
    """The operations of `Purser`."""

    def _call(
        self, name: str, fields: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]]
    ) -> Any:
        raise NotImplementedError

    def _entries(self, name: str, fields: Mapping[str, Any]) -> Iterator[Any]:
        raise NotImplementedError

    def get_unit_names(self) -> NamesOfUnits:
        """Get the names of the units.

        Returns the names under which a page shows the units. A publishable key needs no user's
        token.
        """
        answer: NamesOfUnits = self._call(
            "get_unit_names",
            {},
        )
        return answer

    def grant_credits(
        self,
        *,
        user_id: str,
        pack_id: str,
        quantity: Union[Optional[Amount], NotGiven] = NOT_GIVEN,
        external_ref: Union[str, NotGiven] = NOT_GIVEN,
        expires_at: Union[Optional[Time], NotGiven] = NOT_GIVEN,
        source: Union[GrantSource, NotGiven] = NOT_GIVEN,
        notes: Union[str, NotGiven] = NOT_GIVEN,
    ) -> GrantResult:
        """Grant a pack to a user.

        Issues one balance for each item of the pack. For a legacy pack, which has no items, issues
        one balance of `quantity`. Either all balances are issued or none. With an `externalRef`,
        such as a payment's id, the pack is granted once: a repeat returns the existing balances,
        with `idempotent-replayed: true`.

        `user_id`: Your own id of the user.
        `pack_id`: The pack's id (`cpk_…`), or its name in any case.
        `quantity`: The amount in the pack's unit, for legacy packs. Ignored for packs with items.
        `external_ref`: Idempotency key for this user and pack, such as a payment's id. It begins
        with neither `stripe:` nor `recurring:`.
        `expires_at`: When the balances expire, in the future. Default: as the pack says. Null:
        never.
        `source`: Why the credits are granted. Default: `purchase`.
        `notes`: Stored with the balances, for people.
        """
        answer: GrantResult = self._call(
            "grant_credits",
            {
                "userId": user_id,
                "packId": pack_id,
                "quantity": quantity,
                "externalRef": external_ref,
                "expiresAt": expires_at,
                "source": source,
                "notes": notes,
            },
        )
        return answer

    def revoke_balance(
        self,
        *,
        balance_id: str,
        reason: Union[str, NotGiven] = NOT_GIVEN,
    ) -> RevokeResult:
        """Revoke a balance.

        Sets a balance's remaining amount to 0. Credits already spent stay spent. The ledger records
        the reason. Revoking it again returns 200 and changes nothing.

        `balance_id`: The id of a balance, `crb_…`.
        `reason`: Stored as the ledger entry's `note`.
        """
        answer: RevokeResult = self._call(
            "revoke_balance",
            {
                "balanceId": balance_id,
                "reason": reason,
            },
        )
        return answer

    def refund_credits(
        self,
        *,
        user_id: str,
        refund_ref: str,
        external_ref: Union[str, NotGiven] = NOT_GIVEN,
        pack_id: Union[str, NotGiven] = NOT_GIVEN,
        share: Union[RefundShare, NotGiven] = NOT_GIVEN,
        reason: Union[str, NotGiven] = NOT_GIVEN,
    ) -> RefundResult:
        """Refund a grant by its reference.

        Takes back a share of the issued amount of each balance under an `externalRef`, as far as
        credits remain. The shares of several refunds add up exactly. A refund that would bring the
        sum above 1 is rejected. When the sum is 1, the balance is revoked, with everything that
        remains. The same `refundRef` with the same body returns the first result, with
        `idempotent-replayed: true`.

        `user_id`: Your own id of the user.
        `external_ref`: The `externalRef` of the grant, or of the grants of several packs.
        `refund_ref`: Idempotency key under the reference, such as the refund's id.
        `pack_id`: Only the balances of this pack: its id, or the name under which they were issued.
        `share`: The share to take back. Default: everything that earlier refunds left.
        `reason`: Stored as the ledger entries' `note`.
        """
        answer: RefundResult = self._call(
            "refund_credits",
            {
                "userId": user_id,
                "externalRef": external_ref,
                "refundRef": refund_ref,
                "packId": pack_id,
                "share": share,
                "reason": reason,
            },
        )
        return answer

    def create_recurring_grant(
        self,
        *,
        user_id: str,
        pack_id: str,
        every: Every,
        recurring_id: Union[str, NotGiven] = NOT_GIVEN,
        quantity: Union[Optional[Amount], NotGiven] = NOT_GIVEN,
        starts_at: Union[Time, NotGiven] = NOT_GIVEN,
        ends_at: Union[Time, NotGiven] = NOT_GIVEN,
        rollover_periods: Union[Optional[int], NotGiven] = NOT_GIVEN,
        time_zone: Union[str, NotGiven] = NOT_GIVEN,
    ) -> RecurringGrant:
        """Grant a pack every period.

        Grants the pack to the user once each period, with the pack's current version. Due periods
        are granted at once. Periods are computed from `startsAt` by the calendar of `timeZone`; if
        a month lacks that day, the period begins on its last day. If clocks skip its time, it
        begins after the gap. The credits of a period have the `externalRef`
        `recurring:<recurringId>:<n>`, and expire at its end, or `rolloverPeriods` periods later.
        With your own `recurringId` the call is idempotent: a repeat returns the recurring grant as
        it stands now. A user may have at most 100 recurring grants that have not ended.

        `recurring_id`: Your own id makes the call idempotent.
        `user_id`: Your own id of the user.
        `pack_id`: The pack's id (`cpk_…`), or its name in any case.
        `quantity`: The amount in the pack's unit, for legacy packs. Ignored for packs with items.
        `every`: The length of a period, by the calendar of `timeZone`.
        `starts_at`: When the first period begins, at most a year from now or ago. Default: now.
        `ends_at`: No period begins at or after this time. Default: no end.
        `rollover_periods`: For how many further periods its credits stay valid. Null: they expire
        as the pack says. Default: `0`.
        `time_zone`: The IANA name of the zone whose calendar the periods follow. Default: `UTC`.
        """
        answer: RecurringGrant = self._call(
            "create_recurring_grant",
            {
                "recurringId": recurring_id,
                "userId": user_id,
                "packId": pack_id,
                "quantity": quantity,
                "every": every,
                "startsAt": starts_at,
                "endsAt": ends_at,
                "rolloverPeriods": rollover_periods,
                "timeZone": time_zone,
            },
        )
        return answer

    def list_recurring_grants(self, *, user_id: str) -> RecurringGrantList:
        """List a user's recurring grants.

        Returns the user's recurring grants in the order of creation, including ended ones, with
        their current state: a due period is included even if it is not written yet. A publishable
        key needs the user's own token.

        `user_id`: Your own id of the user.
        """
        answer: RecurringGrantList = self._call(
            "list_recurring_grants",
            {
                "userId": user_id,
            },
        )
        return answer

    def cancel_recurring_grant(
        self,
        *,
        recurring_id: str,
        at: Union[Literal["period_end", "now"], NotGiven] = NOT_GIVEN,
        reason: Union[str, NotGiven] = NOT_GIVEN,
    ) -> RecurringGrant:
        """End a recurring grant.

        Ends the recurring grant. With `at: "now"` its balances that have not expired are revoked
        too, even if it has already ended. A repeat changes nothing.

        `recurring_id`: The id of the recurring grant, `rec_…`.
        `at`: `now` also revokes granted balances that have not expired. Default: `period_end`.
        `reason`: Stored as the `note` of the ledger entries that `now` writes.
        """
        answer: RecurringGrant = self._call(
            "cancel_recurring_grant",
            {
                "recurringId": recurring_id,
                "at": at,
                "reason": reason,
            },
        )
        return answer

    def resume_recurring_grant(
        self,
        *,
        recurring_id: str,
        undo_cancel: Union[bool, NotGiven] = NOT_GIVEN,
    ) -> RecurringGrant:
        """Resume a suspended recurring grant.

        Continues the recurring grant with the current period, which is granted at once. While the
        cause of the suspension remains, the call returns that error and changes nothing. If no
        period is left, the recurring grant ends. With `undoCancel` it continues one that was
        cancelled at a period's end, until that end.

        `recurring_id`: The id of the recurring grant, `rec_…`.
        `undo_cancel`: Undoes a cancel at `period_end`, until the last period ends. Default:
        `false`.
        """
        answer: RecurringGrant = self._call(
            "resume_recurring_grant",
            {
                "recurringId": recurring_id,
                "undoCancel": undo_cancel,
            },
        )
        return answer

    def list_balances(
        self,
        *,
        user_id: str,
        event: Union[str, NotGiven] = NOT_GIVEN,
        include_expired: Union[bool, NotGiven] = NOT_GIVEN,
        external_ref: Union[str, NotGiven] = NOT_GIVEN,
        as_of: Union[Time, NotGiven] = NOT_GIVEN,
    ) -> CreditBalanceList:
        """List a user's balances.

        Returns the active balances in spending order, or with `includeExpired` all balances.
        `externalRef` returns the balances granted under a reference, and `asOf` the balances at a
        moment; both need a secret key. A browser may call it with a publishable key and the user's
        token in `X-User-Token`, for that user, and for the payers that the token names by the
        setting's `payerClaim`.

        `user_id`: Your own id of the user.
        `event`: An event name or a glob: only balances that pay for it.
        `include_expired`: Also expired, depleted and revoked balances. Ignored with `externalRef`
        and `asOf`, which list balances of any status.
        `external_ref`: Only balances granted under this reference, of any status. A reference
        belongs to a user and a pack.
        `as_of`: The balances as they were at this moment, which must not be in the future.
        """
        answer: CreditBalanceList = self._call(
            "list_balances",
            {
                "userId": user_id,
                "event": event,
                "includeExpired": include_expired,
                "externalRef": external_ref,
                "asOf": as_of,
            },
        )
        return answer

    def list_ledger_entries(
        self,
        *,
        user_id: str,
        balance_id: Union[str, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> LedgerPage:
        """List a user's ledger entries.

        Returns every change of the user's balances, newest first. `balanceId` limits it to one
        balance.

        `user_id`: Your own id of the user.
        `balance_id`: Only the entries of this balance.
        `limit`: The most entries in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: LedgerPage = self._call(
            "list_ledger_entries",
            {
                "userId": user_id,
                "balanceId": balance_id,
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_ledger_entries(
        self,
        *,
        user_id: str,
        balance_id: Union[str, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> Iterator[LedgerEntry]:
        """Iterate over all entries of `list_ledger_entries`: `for entry in …`."""
        return self._entries(
            "list_ledger_entries",
            {
                "userId": user_id,
                "balanceId": balance_id,
                "limit": limit,
            },
        )

    def list_credit_users(
        self,
        *,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> CreditUserList:
        """List the users who have credits.

        Returns the users with active balances, by user id in the order of code points. A page may
        have fewer users than `limit`, even none, while `nextCursor` is not null.

        `limit`: The most users in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: CreditUserList = self._call(
            "list_credit_users",
            {
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_credit_users(self, *, limit: Union[int, NotGiven] = NOT_GIVEN) -> Iterator[CreditUser]:
        """Iterate over all entries of `list_credit_users`: `for entry in …`."""
        return self._entries(
            "list_credit_users",
            {
                "limit": limit,
            },
        )

    def preview_debit(
        self,
        *,
        user_id: str,
        event: str,
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_shortage: Union[OnShortage, NotGiven] = NOT_GIVEN,
    ) -> DebitPlan:
        """Preview a debit.

        Takes the body of a usage event, without its id. Returns the debits that the event would
        make now, the quantities that no balance covers, why other balances would not be debited,
        and the usage limits that would reject it. Changes nothing.

        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `occurred_at`: The time of the usage, at most a day ahead. Default: now.
        `properties`: Stored with the event and contained in the person's export.
        `on_shortage`: If credits are insufficient: reject, or debit what is available and report
        the rest. Default: `reject`.
        """
        answer: DebitPlan = self._call(
            "preview_debit",
            {
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "occurredAt": occurred_at,
                "properties": properties,
                "onShortage": on_shortage,
            },
        )
        return answer

    def verify_user(
        self,
        *,
        user_id: str,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> LedgerVerification:
        """Verify a user's balances.

        Recomputes the user's balances from the ledger, in pages of at most 10,000 entries, and
        returns all flaws.

        `user_id`: Your own id of the user.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: LedgerVerification = self._call(
            "verify_user",
            {
                "userId": user_id,
                "cursor": cursor,
            },
        )
        return answer

    def record_usage_event(
        self,
        *,
        user_id: str,
        event: str,
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_shortage: Union[OnShortage, NotGiven] = NOT_GIVEN,
    ) -> UsageEventResult:
        """Record a usage event.

        Records usage once for each `eventId`, and debits the balances that pay for it, in spending
        order. Each balance pays the part of the event that it can, in its own unit. If credits are
        insufficient, `reject` records nothing (402; the same id may be sent again) and `partial`
        debits what is available. A CloudEvent 1.0 is accepted as well: its `source` (with `%` and
        `#` percent-encoded), `#` and `id` are the eventId, `subject` the userId, `type` the event,
        `time` occurredAt. Lists go to `/api/v1/usage/events/batch`; this path takes them too.

        `event_id`: Your own id of the event: its idempotency key. It does not expire. It must not
        begin with `res_`.
        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `occurred_at`: The time of the usage, at most a day ahead. Default: now.
        `properties`: Stored with the event and contained in the person's export.
        `on_shortage`: If credits are insufficient: reject, or debit what is available and report
        the rest. Default: `reject`.
        """
        answer: UsageEventResult = self._call(
            "record_usage_event",
            {
                "eventId": event_id,
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "occurredAt": occurred_at,
                "properties": properties,
                "onShortage": on_shortage,
            },
        )
        return answer

    @overload
    def list_usage_events(
        self,
        *,
        event_id: str,
        user_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UsageEventOfUser: ...

    @overload
    def list_usage_events(
        self,
        *,
        user_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UsageEventPage: ...

    def list_usage_events(
        self,
        *,
        user_id: Union[str, NotGiven] = NOT_GIVEN,
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> Union[UsageEventPage, UsageEventOfUser]:
        """List usage events.

        Returns a user's events, newest by `occurredAt` first. A page with `event` or `model`
        examines a limited number of events, so it may be short, even empty, while `nextCursor` is
        not null. A browser may call it with a publishable key and the user's token, for that user
        only, and gets no `properties`. With `eventId` instead of `userId`, returns that event, with
        its `userId`.

        `user_id`: The user whose events they are.
        `event_id`: The id of one event, instead of `userId`. Needs a secret key.
        `member_id`: Only this member's events. Needs a secret key.
        `event`: An event name or a glob.
        `model`: A model or a glob.
        `from_`: Only events that occurred at this time or later.
        `to`: Only events that occurred before this time.
        `limit`: The most events in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: Union[UsageEventPage, UsageEventOfUser] = self._call(
            "list_usage_events",
            {
                "userId": user_id,
                "eventId": event_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "from": from_,
                "to": to,
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_usage_events(
        self,
        *,
        user_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> Iterator[StoredUsageEvent]:
        """Iterate over all entries of `list_usage_events`: `for entry in …`."""
        return self._entries(
            "list_usage_events",
            {
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "from": from_,
                "to": to,
                "limit": limit,
            },
        )

    def record_usage_events(self, events: Sequence[UsageEvent]) -> UsageEventList:
        """Record a list of usage events.

        Up to 100 events as a bare list. Each event, even a malformed one, succeeds or fails
        separately, as with `recordUsageEvent`. The response is 200 with a result for each. Events
        of one user are recorded in the order of the list.
        """
        answer: UsageEventList = self._call("record_usage_events", events)
        return answer

    def preview_price(
        self,
        *,
        event: str,
        meters: Meters,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
    ) -> UsagePrice:
        """Preview a price.

        Returns the quantities that the price list gives the meters of an event, and the rules that
        give them. It needs no user, and changes nothing.

        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `meters`: The usage by meter.
        `occurred_at`: The time of the usage, at most a day ahead. Default: now.
        """
        answer: UsagePrice = self._call(
            "preview_price",
            {
                "event": event,
                "model": model,
                "meters": meters,
                "occurredAt": occurred_at,
            },
        )
        return answer

    def list_usage_members(
        self,
        *,
        user_id: str,
        from_: Time,
        to: Time,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UsageMembers:
        """List the members who used a user's credits.

        Returns the members of a payer whose usage occurred in `[from, to)`, each with the used
        quantities and the debited amounts. A span of more than 200,000 events is rejected.

        `user_id`: Your own id of the user.
        `from_`: Only events that occurred at this time or later.
        `to`: Only events that occurred before this time.
        `limit`: The most members in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: UsageMembers = self._call(
            "list_usage_members",
            {
                "userId": user_id,
                "from": from_,
                "to": to,
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_usage_members(
        self,
        *,
        user_id: str,
        from_: Time,
        to: Time,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> Iterator[UsageOfMember]:
        """Iterate over all entries of `list_usage_members`: `for entry in …`."""
        return self._entries(
            "list_usage_members",
            {
                "userId": user_id,
                "from": from_,
                "to": to,
                "limit": limit,
            },
        )

    def get_usage_totals(
        self,
        *,
        user_id: str,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        group_by: Union[str, NotGiven] = NOT_GIVEN,
    ) -> Union[UsageTotals, GroupedUsageTotals]:
        """Get usage totals.

        Returns the used quantities, by event and unit, of events that occurred in `[from, to)`.
        These are not debits. `groupBy` groups them by event, model, member and hour, day or month,
        together with the debited amounts and the meters; it needs `from`. A span of more than
        200,000 events is rejected. A browser may call it with a publishable key and the user's
        token, for that user only, for up to 5,000 events.

        `user_id`: Your own id of the user.
        `member_id`: Only this member's usage. Needs a secret key.
        `event`: An event name or a glob.
        `from_`: Only events that occurred at this time or later.
        `to`: Only events that occurred before this time.
        `group_by`: Groups, separated by commas: `event`, `model`, `member` (with a secret key), and
        one of `hour`, `day` and `month` (UTC). Needs `from`.
        """
        answer: Union[UsageTotals, GroupedUsageTotals] = self._call(
            "get_usage_totals",
            {
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "from": from_,
                "to": to,
                "groupBy": group_by,
            },
        )
        return answer

    def create_reservation(
        self,
        *,
        user_id: str,
        event: str,
        reservation_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        expires_in_seconds: Union[int, NotGiven] = NOT_GIVEN,
        on_expiry: Union[OnExpiry, NotGiven] = NOT_GIVEN,
    ) -> CreatedReservation:
        """Create a reservation.

        Holds the credits that the usage may cost: all or nothing. The hold ends when the
        reservation is committed, released or expires. Held credits pay for their commit or charge
        even if their balance has expired since, but not if it was revoked. With your own
        `reservationId` the call is idempotent. With `onExpiry: "charge"` a reservation that nobody
        settled in time is committed with the reserved quantities, as an event whose `eventId` is
        the `reservationId`.

        `reservation_id`: Your own id makes the call idempotent.
        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `expires_in_seconds`: How long the credits are held. Default: `300`.
        `on_expiry`: When it expires: return the holds, or charge the reserved quantities as an
        event with its id. Default: `return`.
        """
        answer: CreatedReservation = self._call(
            "create_reservation",
            {
                "reservationId": reservation_id,
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "expiresInSeconds": expires_in_seconds,
                "onExpiry": on_expiry,
            },
        )
        return answer

    def list_reservations(
        self,
        *,
        user_id: str,
        status: Union[ReservationStatus, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> ReservationList:
        """List a user's reservations.

        Returns the user's reservations, newest first, of one status or of all. An expired
        reservation whose holds have not returned yet already has its later status, and no
        `settledAt`.

        `user_id`: Your own id of the user.
        `status`: Only reservations of this status.
        `limit`: The most reservations in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: ReservationList = self._call(
            "list_reservations",
            {
                "userId": user_id,
                "status": status,
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_reservations(
        self,
        *,
        user_id: str,
        status: Union[ReservationStatus, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> Iterator[Reservation]:
        """Iterate over all entries of `list_reservations`: `for entry in …`."""
        return self._entries(
            "list_reservations",
            {
                "userId": user_id,
                "status": status,
                "limit": limit,
            },
        )

    def get_reservation(self, *, reservation_id: str) -> Reservation:
        """Get a reservation.

        Returns the current state of a reservation. An expired reservation whose holds have not
        returned yet already has its later status, and no `settledAt`.

        `reservation_id`: The id of the reservation, `res_…`.
        """
        answer: Reservation = self._call(
            "get_reservation",
            {
                "reservationId": reservation_id,
            },
        )
        return answer

    def commit_reservation(
        self,
        *,
        reservation_id: str,
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_shortage: Union[OnShortage, NotGiven] = NOT_GIVEN,
    ) -> UsageEventResult:
        """Commit a reservation.

        Releases the holds and debits the actual usage in one transaction. The usage may be less or
        more than was held. The balances of the holds pay first; one that has expired since pays
        what is held of it. A `model` replaces the reservation's. A commit after the reservation
        expired counts as a plain event, unless the reservation was charged. On 402 the hold
        remains.

        `reservation_id`: The id of the reservation, `res_…`.
        `event_id`: Your own id of the event: its idempotency key. It does not expire. It must not
        begin with `res_`.
        `model`: The model that was used, if it is not the reserved one. The usage is matched and
        counted by it.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `occurred_at`: The time of the usage, at most a day ahead. Default: now.
        `properties`: Stored with the event and contained in the person's export.
        `on_shortage`: If credits are insufficient: reject, or debit what is available and report
        the rest. Default: `reject`.
        """
        answer: UsageEventResult = self._call(
            "commit_reservation",
            {
                "reservationId": reservation_id,
                "eventId": event_id,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "occurredAt": occurred_at,
                "properties": properties,
                "onShortage": on_shortage,
            },
        )
        return answer

    def extend_reservation(self, *, reservation_id: str, expires_in_seconds: int) -> Reservation:
        """Extend a reservation.

        Moves the expiry of an open reservation to `expiresInSeconds` from now. The expiry never
        becomes earlier, and is at most a day after the reservation was created.

        `reservation_id`: The id of the reservation, `res_…`.
        `expires_in_seconds`: How long the credits are held from now on.
        """
        answer: Reservation = self._call(
            "extend_reservation",
            {
                "reservationId": reservation_id,
                "expiresInSeconds": expires_in_seconds,
            },
        )
        return answer

    def release_reservation(self, *, reservation_id: str) -> ReservationRelease:
        """Release a reservation.

        Returns the held credits. Releasing the reservation again, or after it expired, returns the
        same result. A reservation that was committed or charged is closed.

        `reservation_id`: The id of the reservation, `res_…`.
        """
        answer: ReservationRelease = self._call(
            "release_reservation",
            {
                "reservationId": reservation_id,
            },
        )
        return answer

    def get_usage_limits(
        self,
        *,
        user_id: str,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UserUsageLimits:
        """Get a user's usage limits.

        Returns the used amount of each limit in the current window, including open holds, in the
        order in which the limits were created. With `memberId`, that member's limits per member are
        among them. A browser may call it with the user's token, or with a member's for a payer that
        the token names by `payerClaim`: then it returns that member's limits alone.

        `user_id`: Your own id of the user.
        `member_id`: The member, for limits per member.
        """
        answer: UserUsageLimits = self._call(
            "get_usage_limits",
            {
                "userId": user_id,
                "memberId": member_id,
            },
        )
        return answer

    def set_own_usage_limit(
        self,
        *,
        limit_id: str,
        user_id: str,
        amount: Optional[Amount],
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
    ) -> UserUsageLimit:
        """Override a limit for a user.

        Sets an amount that replaces the amount of the limit for one user. It takes effect at once,
        also in the current window. If the amount is null, the limit does not apply to this user. A
        limit per member needs the `memberId`; other limits reject one.

        `limit_id`: The id of the limit, `lim_…`.
        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `amount`: The override, in the limit's unit; 0 or more. Null: this user is unlimited.
        """
        answer: UserUsageLimit = self._call(
            "set_own_usage_limit",
            {
                "limitId": limit_id,
                "userId": user_id,
                "memberId": member_id,
                "amount": amount,
            },
        )
        return answer

    def remove_own_usage_limit(
        self,
        *,
        limit_id: str,
        user_id: str,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UserUsageLimit:
        """Remove a user's override of a limit.

        Restores the limit's amount for the user, or for a member. Returns 200 also if there is no
        override.

        `limit_id`: The id of the limit, `lim_…`.
        `user_id`: Your own id of the user.
        `member_id`: The member, for limits per member.
        """
        answer: UserUsageLimit = self._call(
            "remove_own_usage_limit",
            {
                "limitId": limit_id,
                "userId": user_id,
                "memberId": member_id,
            },
        )
        return answer

    def record_consent(
        self,
        *,
        distinct_id: str,
        purpose: str,
        decision: ConsentDecision,
        method: Union[str, NotGiven] = NOT_GIVEN,
        notice_version: Union[str, NotGiven] = NOT_GIVEN,
        source: Union[str, NotGiven] = NOT_GIVEN,
        gpc: Union[bool, NotGiven] = NOT_GIVEN,
        is_device: Union[bool, NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
    ) -> ConsentEntry:
        """Record a consent decision.

        Adds an entry to the person's consent log. Entries cannot be changed or removed. Every
        export contains them. A browser may call it with a publishable key and the user's token in
        `X-User-Token`, for that user only.

        `distinct_id`: Any distinct id of the person.
        `purpose`: The purpose that was asked for, such as `analytics`.
        `method`: How the decision was given, such as `banner`.
        `notice_version`: The version of the notice that was shown.
        `source`: Where it was given, such as a page.
        `gpc`: Whether the browser sent Global Privacy Control.
        `is_device`: Whether the consent is of an anonymous visitor, and the id is an SDK's device
        id. Otherwise the id is a user from then on, and no publishable key can link it. Only with a
        secret key.
        `occurred_at`: When the decision was given. Default: now. With a publishable key at most a
        day ago and 5 minutes ahead; `denied` and `withdrawn` are stored anyway, with the time of
        arrival.
        """
        answer: ConsentEntry = self._call(
            "record_consent",
            {
                "distinctId": distinct_id,
                "purpose": purpose,
                "decision": decision,
                "method": method,
                "noticeVersion": notice_version,
                "source": source,
                "gpc": gpc,
                "isDevice": is_device,
                "occurredAt": occurred_at,
            },
        )
        return answer

    def erase_person(
        self,
        *,
        distinct_id: str,
        dry_run: Union[bool, NotGiven] = NOT_GIVEN,
        distinct_ids: Union[Sequence[str], NotGiven] = NOT_GIVEN,
        distinct_id_count: Union[int, NotGiven] = NOT_GIVEN,
        block_ids: Union[Sequence[str], NotGiven] = NOT_GIVEN,
        keep_consent: Union[bool, NotGiven] = NOT_GIVEN,
        reason: Union[ErasureReason, NotGiven] = NOT_GIVEN,
    ) -> ErasedPerson:
        """Erase a person.

        Deletes the person's data, and removes their names from the books. Remaining credits are
        revoked, and open reservations are released. From then on, writes for these ids are
        `person_erased`, and their analytics events get the usual response but are not stored. Try
        it with `dryRun: true` first. A repeat returns the same erasure, and continues it if it is
        still running.

        `distinct_id`: Any id of the person. That id and all ids that it claims are erased.
        `dry_run`: Changes nothing, and returns what would be erased. Default: `false`.
        `distinct_ids`: The person's ids, as a dry run listed them. If they have changed since,
        nothing is erased. You may leave out ids that only claims by publishable keys reach. They
        are then not erased.
        `distinct_id_count`: How many ids the person has, as a dry run counted them. Use it instead
        of `distinctIds` for a person with more ids than that list may have. If the number has
        changed since, nothing is erased.
        `block_ids`: Further ids to block, among those that only claims by publishable keys reach.
        Purser stores nothing more for a blocked id. For an id that is not blocked, only mentions
        are removed, until something new is sent with it.
        `keep_consent`: Keeps the consent log as evidence of the decisions, with a keyed hash in
        place of each id. Default: `false`.
        `reason`: The reason for the erasure, for the receipt.
        """
        answer: ErasedPerson = self._call(
            "erase_person",
            {
                "distinctId": distinct_id,
                "dryRun": dry_run,
                "distinctIds": distinct_ids,
                "distinctIdCount": distinct_id_count,
                "blockIds": block_ids,
                "keepConsent": keep_consent,
                "reason": reason,
            },
        )
        return answer

    def get_erasure(self, *, erasure_id: str) -> Erasure:
        """Get an erasure and its receipt.

        Returns an erasure: the erased and the kept data, the time, the key and the reason. It
        contains no personal data.

        `erasure_id`: The erasure's id.
        """
        answer: Erasure = self._call(
            "get_erasure",
            {
                "erasureId": erasure_id,
            },
        )
        return answer

    def lift_erasure(self, *, erasure_id: str) -> Erasure:
        """Lift an erasure.

        Allows the ids of an erasure again. Erased data is not restored. A running erasure cannot be
        lifted yet.

        `erasure_id`: The erasure's id.
        """
        answer: Erasure = self._call(
            "lift_erasure",
            {
                "erasureId": erasure_id,
            },
        )
        return answer

    def create_export_link(self, *, distinct_id: str) -> ExportLink:
        """Create a download link for a person's data.

        Creates a link that is valid for 24 hours and needs no key. Give it only to the person. No
        data is read yet, so a link is returned even if nothing is stored. The request is recorded
        and appears in the export.

        `distinct_id`: Any id of the person: one that your analytics, credits or consents use.
        """
        answer: ExportLink = self._call(
            "create_export_link",
            {
                "distinctId": distinct_id,
            },
        )
        return answer

    def revoke_export_links(self, *, distinct_id: str) -> RevokedExportLinks:
        """Revoke a person's download links.

        Ends every link that was created for this id until now. From then on, such a link is
        rejected like an expired one. A download that has begun is finished. Links for other ids of
        the person stay valid.

        `distinct_id`: The id that the links were created for.
        """
        answer: RevokedExportLinks = self._call(
            "revoke_export_links",
            {
                "distinctId": distinct_id,
            },
        )
        return answer

    def download_export(self, *, token: str) -> PersonExport:
        """Download a person's data.

        Opens a link of `createExportLink`. The document is generated while it is sent, and has the
        state of one moment, `exportedAt`. If the download is interrupted, the JSON is incomplete
        and does not parse. A link may be opened again. The person is the requested id and the ids
        that are linked to it. A browser that opens a link which is not valid (`Accept` names
        `text/html`) sees a short page instead of the JSON of the 401.

        `token`: The `token` of the `downloadUrl`.
        """
        answer: PersonExport = self._call(
            "download_export",
            {
                "token": token,
            },
        )
        return answer

    def get_export_document_schema(self) -> JsonSchemaDocument:
        """Get the JSON Schema of the export document.

        Returns the JSON Schema of the document that `downloadExport` returns.
        """
        answer: JsonSchemaDocument = self._call(
            "get_export_document_schema",
            {},
        )
        return answer

    def check_health(self) -> Health:
        """Check health.

        Runs one trivial query on the database.
        """
        answer: Health = self._call(
            "check_health",
            {},
        )
        return answer

    def get_open_api(self) -> OpenApiDocument:
        """Get the OpenAPI document.

        The whole API as OpenAPI 3.1, generated from the schemas that validate requests.
        """
        answer: OpenApiDocument = self._call(
            "get_open_api",
            {},
        )
        return answer

    def hold(
        self,
        *,
        user_id: str,
        event: str,
        reservation_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        expires_in_seconds: Union[int, NotGiven] = NOT_GIVEN,
        on_expiry: Union[OnExpiry, NotGiven] = NOT_GIVEN,
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_error: Literal["commit", "release"] = "commit",
    ) -> Hold:
        """Reserve credits while work runs, and commit its usage.

        `with purser.hold(…) as hold:`

        Report the usage with `hold.used`. If the work raises, or is cancelled, the usage that it
        reported until then is committed; with `on_error="release"` all credits return. If it
        reported nothing, they return. A commit that fails for good leaves the credits to
        `on_expiry`. Raises `InsufficientCredits` before the work begins.

        `event_id`: The id of the usage event. The client makes one if it is absent.
        `properties`: Stored with the usage event.
        `reservation_id`: Your own id makes the call idempotent.
        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `expires_in_seconds`: How long the credits are held. Default: `300`.
        `on_expiry`: When it expires: return the holds, or charge the reserved quantities as an
        event with its id. Default: `return`.
        """
        return Hold(
            cast("Purser", self),
            {
                "reservationId": reservation_id,
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "expiresInSeconds": expires_in_seconds,
                "onExpiry": on_expiry,
            },
            event_id,
            properties,
            on_error,
        )


class AsyncOperations:
    """The operations of `AsyncPurser`."""

    async def _call(
        self, name: str, fields: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]]
    ) -> Any:
        raise NotImplementedError

    def _entries(self, name: str, fields: Mapping[str, Any]) -> AsyncIterator[Any]:
        raise NotImplementedError

    async def get_unit_names(self) -> NamesOfUnits:
        """Get the names of the units.

        Returns the names under which a page shows the units. A publishable key needs no user's
        token.
        """
        answer: NamesOfUnits = await self._call(
            "get_unit_names",
            {},
        )
        return answer

    async def grant_credits(
        self,
        *,
        user_id: str,
        pack_id: str,
        quantity: Union[Optional[Amount], NotGiven] = NOT_GIVEN,
        external_ref: Union[str, NotGiven] = NOT_GIVEN,
        expires_at: Union[Optional[Time], NotGiven] = NOT_GIVEN,
        source: Union[GrantSource, NotGiven] = NOT_GIVEN,
        notes: Union[str, NotGiven] = NOT_GIVEN,
    ) -> GrantResult:
        """Grant a pack to a user.

        Issues one balance for each item of the pack. For a legacy pack, which has no items, issues
        one balance of `quantity`. Either all balances are issued or none. With an `externalRef`,
        such as a payment's id, the pack is granted once: a repeat returns the existing balances,
        with `idempotent-replayed: true`.

        `user_id`: Your own id of the user.
        `pack_id`: The pack's id (`cpk_…`), or its name in any case.
        `quantity`: The amount in the pack's unit, for legacy packs. Ignored for packs with items.
        `external_ref`: Idempotency key for this user and pack, such as a payment's id. It begins
        with neither `stripe:` nor `recurring:`.
        `expires_at`: When the balances expire, in the future. Default: as the pack says. Null:
        never.
        `source`: Why the credits are granted. Default: `purchase`.
        `notes`: Stored with the balances, for people.
        """
        answer: GrantResult = await self._call(
            "grant_credits",
            {
                "userId": user_id,
                "packId": pack_id,
                "quantity": quantity,
                "externalRef": external_ref,
                "expiresAt": expires_at,
                "source": source,
                "notes": notes,
            },
        )
        return answer

    async def revoke_balance(
        self,
        *,
        balance_id: str,
        reason: Union[str, NotGiven] = NOT_GIVEN,
    ) -> RevokeResult:
        """Revoke a balance.

        Sets a balance's remaining amount to 0. Credits already spent stay spent. The ledger records
        the reason. Revoking it again returns 200 and changes nothing.

        `balance_id`: The id of a balance, `crb_…`.
        `reason`: Stored as the ledger entry's `note`.
        """
        answer: RevokeResult = await self._call(
            "revoke_balance",
            {
                "balanceId": balance_id,
                "reason": reason,
            },
        )
        return answer

    async def refund_credits(
        self,
        *,
        user_id: str,
        refund_ref: str,
        external_ref: Union[str, NotGiven] = NOT_GIVEN,
        pack_id: Union[str, NotGiven] = NOT_GIVEN,
        share: Union[RefundShare, NotGiven] = NOT_GIVEN,
        reason: Union[str, NotGiven] = NOT_GIVEN,
    ) -> RefundResult:
        """Refund a grant by its reference.

        Takes back a share of the issued amount of each balance under an `externalRef`, as far as
        credits remain. The shares of several refunds add up exactly. A refund that would bring the
        sum above 1 is rejected. When the sum is 1, the balance is revoked, with everything that
        remains. The same `refundRef` with the same body returns the first result, with
        `idempotent-replayed: true`.

        `user_id`: Your own id of the user.
        `external_ref`: The `externalRef` of the grant, or of the grants of several packs.
        `refund_ref`: Idempotency key under the reference, such as the refund's id.
        `pack_id`: Only the balances of this pack: its id, or the name under which they were issued.
        `share`: The share to take back. Default: everything that earlier refunds left.
        `reason`: Stored as the ledger entries' `note`.
        """
        answer: RefundResult = await self._call(
            "refund_credits",
            {
                "userId": user_id,
                "externalRef": external_ref,
                "refundRef": refund_ref,
                "packId": pack_id,
                "share": share,
                "reason": reason,
            },
        )
        return answer

    async def create_recurring_grant(
        self,
        *,
        user_id: str,
        pack_id: str,
        every: Every,
        recurring_id: Union[str, NotGiven] = NOT_GIVEN,
        quantity: Union[Optional[Amount], NotGiven] = NOT_GIVEN,
        starts_at: Union[Time, NotGiven] = NOT_GIVEN,
        ends_at: Union[Time, NotGiven] = NOT_GIVEN,
        rollover_periods: Union[Optional[int], NotGiven] = NOT_GIVEN,
        time_zone: Union[str, NotGiven] = NOT_GIVEN,
    ) -> RecurringGrant:
        """Grant a pack every period.

        Grants the pack to the user once each period, with the pack's current version. Due periods
        are granted at once. Periods are computed from `startsAt` by the calendar of `timeZone`; if
        a month lacks that day, the period begins on its last day. If clocks skip its time, it
        begins after the gap. The credits of a period have the `externalRef`
        `recurring:<recurringId>:<n>`, and expire at its end, or `rolloverPeriods` periods later.
        With your own `recurringId` the call is idempotent: a repeat returns the recurring grant as
        it stands now. A user may have at most 100 recurring grants that have not ended.

        `recurring_id`: Your own id makes the call idempotent.
        `user_id`: Your own id of the user.
        `pack_id`: The pack's id (`cpk_…`), or its name in any case.
        `quantity`: The amount in the pack's unit, for legacy packs. Ignored for packs with items.
        `every`: The length of a period, by the calendar of `timeZone`.
        `starts_at`: When the first period begins, at most a year from now or ago. Default: now.
        `ends_at`: No period begins at or after this time. Default: no end.
        `rollover_periods`: For how many further periods its credits stay valid. Null: they expire
        as the pack says. Default: `0`.
        `time_zone`: The IANA name of the zone whose calendar the periods follow. Default: `UTC`.
        """
        answer: RecurringGrant = await self._call(
            "create_recurring_grant",
            {
                "recurringId": recurring_id,
                "userId": user_id,
                "packId": pack_id,
                "quantity": quantity,
                "every": every,
                "startsAt": starts_at,
                "endsAt": ends_at,
                "rolloverPeriods": rollover_periods,
                "timeZone": time_zone,
            },
        )
        return answer

    async def list_recurring_grants(self, *, user_id: str) -> RecurringGrantList:
        """List a user's recurring grants.

        Returns the user's recurring grants in the order of creation, including ended ones, with
        their current state: a due period is included even if it is not written yet. A publishable
        key needs the user's own token.

        `user_id`: Your own id of the user.
        """
        answer: RecurringGrantList = await self._call(
            "list_recurring_grants",
            {
                "userId": user_id,
            },
        )
        return answer

    async def cancel_recurring_grant(
        self,
        *,
        recurring_id: str,
        at: Union[Literal["period_end", "now"], NotGiven] = NOT_GIVEN,
        reason: Union[str, NotGiven] = NOT_GIVEN,
    ) -> RecurringGrant:
        """End a recurring grant.

        Ends the recurring grant. With `at: "now"` its balances that have not expired are revoked
        too, even if it has already ended. A repeat changes nothing.

        `recurring_id`: The id of the recurring grant, `rec_…`.
        `at`: `now` also revokes granted balances that have not expired. Default: `period_end`.
        `reason`: Stored as the `note` of the ledger entries that `now` writes.
        """
        answer: RecurringGrant = await self._call(
            "cancel_recurring_grant",
            {
                "recurringId": recurring_id,
                "at": at,
                "reason": reason,
            },
        )
        return answer

    async def resume_recurring_grant(
        self,
        *,
        recurring_id: str,
        undo_cancel: Union[bool, NotGiven] = NOT_GIVEN,
    ) -> RecurringGrant:
        """Resume a suspended recurring grant.

        Continues the recurring grant with the current period, which is granted at once. While the
        cause of the suspension remains, the call returns that error and changes nothing. If no
        period is left, the recurring grant ends. With `undoCancel` it continues one that was
        cancelled at a period's end, until that end.

        `recurring_id`: The id of the recurring grant, `rec_…`.
        `undo_cancel`: Undoes a cancel at `period_end`, until the last period ends. Default:
        `false`.
        """
        answer: RecurringGrant = await self._call(
            "resume_recurring_grant",
            {
                "recurringId": recurring_id,
                "undoCancel": undo_cancel,
            },
        )
        return answer

    async def list_balances(
        self,
        *,
        user_id: str,
        event: Union[str, NotGiven] = NOT_GIVEN,
        include_expired: Union[bool, NotGiven] = NOT_GIVEN,
        external_ref: Union[str, NotGiven] = NOT_GIVEN,
        as_of: Union[Time, NotGiven] = NOT_GIVEN,
    ) -> CreditBalanceList:
        """List a user's balances.

        Returns the active balances in spending order, or with `includeExpired` all balances.
        `externalRef` returns the balances granted under a reference, and `asOf` the balances at a
        moment; both need a secret key. A browser may call it with a publishable key and the user's
        token in `X-User-Token`, for that user, and for the payers that the token names by the
        setting's `payerClaim`.

        `user_id`: Your own id of the user.
        `event`: An event name or a glob: only balances that pay for it.
        `include_expired`: Also expired, depleted and revoked balances. Ignored with `externalRef`
        and `asOf`, which list balances of any status.
        `external_ref`: Only balances granted under this reference, of any status. A reference
        belongs to a user and a pack.
        `as_of`: The balances as they were at this moment, which must not be in the future.
        """
        answer: CreditBalanceList = await self._call(
            "list_balances",
            {
                "userId": user_id,
                "event": event,
                "includeExpired": include_expired,
                "externalRef": external_ref,
                "asOf": as_of,
            },
        )
        return answer

    async def list_ledger_entries(
        self,
        *,
        user_id: str,
        balance_id: Union[str, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> LedgerPage:
        """List a user's ledger entries.

        Returns every change of the user's balances, newest first. `balanceId` limits it to one
        balance.

        `user_id`: Your own id of the user.
        `balance_id`: Only the entries of this balance.
        `limit`: The most entries in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: LedgerPage = await self._call(
            "list_ledger_entries",
            {
                "userId": user_id,
                "balanceId": balance_id,
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_ledger_entries(
        self,
        *,
        user_id: str,
        balance_id: Union[str, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> AsyncIterator[LedgerEntry]:
        """Iterate over all entries of `list_ledger_entries`: `async for entry in …`."""
        return self._entries(
            "list_ledger_entries",
            {
                "userId": user_id,
                "balanceId": balance_id,
                "limit": limit,
            },
        )

    async def list_credit_users(
        self,
        *,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> CreditUserList:
        """List the users who have credits.

        Returns the users with active balances, by user id in the order of code points. A page may
        have fewer users than `limit`, even none, while `nextCursor` is not null.

        `limit`: The most users in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: CreditUserList = await self._call(
            "list_credit_users",
            {
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_credit_users(
        self,
        *,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> AsyncIterator[CreditUser]:
        """Iterate over all entries of `list_credit_users`: `async for entry in …`."""
        return self._entries(
            "list_credit_users",
            {
                "limit": limit,
            },
        )

    async def preview_debit(
        self,
        *,
        user_id: str,
        event: str,
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_shortage: Union[OnShortage, NotGiven] = NOT_GIVEN,
    ) -> DebitPlan:
        """Preview a debit.

        Takes the body of a usage event, without its id. Returns the debits that the event would
        make now, the quantities that no balance covers, why other balances would not be debited,
        and the usage limits that would reject it. Changes nothing.

        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `occurred_at`: The time of the usage, at most a day ahead. Default: now.
        `properties`: Stored with the event and contained in the person's export.
        `on_shortage`: If credits are insufficient: reject, or debit what is available and report
        the rest. Default: `reject`.
        """
        answer: DebitPlan = await self._call(
            "preview_debit",
            {
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "occurredAt": occurred_at,
                "properties": properties,
                "onShortage": on_shortage,
            },
        )
        return answer

    async def verify_user(
        self,
        *,
        user_id: str,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> LedgerVerification:
        """Verify a user's balances.

        Recomputes the user's balances from the ledger, in pages of at most 10,000 entries, and
        returns all flaws.

        `user_id`: Your own id of the user.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: LedgerVerification = await self._call(
            "verify_user",
            {
                "userId": user_id,
                "cursor": cursor,
            },
        )
        return answer

    async def record_usage_event(
        self,
        *,
        user_id: str,
        event: str,
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_shortage: Union[OnShortage, NotGiven] = NOT_GIVEN,
    ) -> UsageEventResult:
        """Record a usage event.

        Records usage once for each `eventId`, and debits the balances that pay for it, in spending
        order. Each balance pays the part of the event that it can, in its own unit. If credits are
        insufficient, `reject` records nothing (402; the same id may be sent again) and `partial`
        debits what is available. A CloudEvent 1.0 is accepted as well: its `source` (with `%` and
        `#` percent-encoded), `#` and `id` are the eventId, `subject` the userId, `type` the event,
        `time` occurredAt. Lists go to `/api/v1/usage/events/batch`; this path takes them too.

        `event_id`: Your own id of the event: its idempotency key. It does not expire. It must not
        begin with `res_`.
        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `occurred_at`: The time of the usage, at most a day ahead. Default: now.
        `properties`: Stored with the event and contained in the person's export.
        `on_shortage`: If credits are insufficient: reject, or debit what is available and report
        the rest. Default: `reject`.
        """
        answer: UsageEventResult = await self._call(
            "record_usage_event",
            {
                "eventId": event_id,
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "occurredAt": occurred_at,
                "properties": properties,
                "onShortage": on_shortage,
            },
        )
        return answer

    @overload
    async def list_usage_events(
        self,
        *,
        event_id: str,
        user_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UsageEventOfUser: ...

    @overload
    async def list_usage_events(
        self,
        *,
        user_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UsageEventPage: ...

    async def list_usage_events(
        self,
        *,
        user_id: Union[str, NotGiven] = NOT_GIVEN,
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> Union[UsageEventPage, UsageEventOfUser]:
        """List usage events.

        Returns a user's events, newest by `occurredAt` first. A page with `event` or `model`
        examines a limited number of events, so it may be short, even empty, while `nextCursor` is
        not null. A browser may call it with a publishable key and the user's token, for that user
        only, and gets no `properties`. With `eventId` instead of `userId`, returns that event, with
        its `userId`.

        `user_id`: The user whose events they are.
        `event_id`: The id of one event, instead of `userId`. Needs a secret key.
        `member_id`: Only this member's events. Needs a secret key.
        `event`: An event name or a glob.
        `model`: A model or a glob.
        `from_`: Only events that occurred at this time or later.
        `to`: Only events that occurred before this time.
        `limit`: The most events in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: Union[UsageEventPage, UsageEventOfUser] = await self._call(
            "list_usage_events",
            {
                "userId": user_id,
                "eventId": event_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "from": from_,
                "to": to,
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_usage_events(
        self,
        *,
        user_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> AsyncIterator[StoredUsageEvent]:
        """Iterate over all entries of `list_usage_events`: `async for entry in …`."""
        return self._entries(
            "list_usage_events",
            {
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "from": from_,
                "to": to,
                "limit": limit,
            },
        )

    async def record_usage_events(self, events: Sequence[UsageEvent]) -> UsageEventList:
        """Record a list of usage events.

        Up to 100 events as a bare list. Each event, even a malformed one, succeeds or fails
        separately, as with `recordUsageEvent`. The response is 200 with a result for each. Events
        of one user are recorded in the order of the list.
        """
        answer: UsageEventList = await self._call("record_usage_events", events)
        return answer

    async def preview_price(
        self,
        *,
        event: str,
        meters: Meters,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
    ) -> UsagePrice:
        """Preview a price.

        Returns the quantities that the price list gives the meters of an event, and the rules that
        give them. It needs no user, and changes nothing.

        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `meters`: The usage by meter.
        `occurred_at`: The time of the usage, at most a day ahead. Default: now.
        """
        answer: UsagePrice = await self._call(
            "preview_price",
            {
                "event": event,
                "model": model,
                "meters": meters,
                "occurredAt": occurred_at,
            },
        )
        return answer

    async def list_usage_members(
        self,
        *,
        user_id: str,
        from_: Time,
        to: Time,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UsageMembers:
        """List the members who used a user's credits.

        Returns the members of a payer whose usage occurred in `[from, to)`, each with the used
        quantities and the debited amounts. A span of more than 200,000 events is rejected.

        `user_id`: Your own id of the user.
        `from_`: Only events that occurred at this time or later.
        `to`: Only events that occurred before this time.
        `limit`: The most members in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: UsageMembers = await self._call(
            "list_usage_members",
            {
                "userId": user_id,
                "from": from_,
                "to": to,
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_usage_members(
        self,
        *,
        user_id: str,
        from_: Time,
        to: Time,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> AsyncIterator[UsageOfMember]:
        """Iterate over all entries of `list_usage_members`: `async for entry in …`."""
        return self._entries(
            "list_usage_members",
            {
                "userId": user_id,
                "from": from_,
                "to": to,
                "limit": limit,
            },
        )

    async def get_usage_totals(
        self,
        *,
        user_id: str,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
        event: Union[str, NotGiven] = NOT_GIVEN,
        from_: Union[Time, NotGiven] = NOT_GIVEN,
        to: Union[Time, NotGiven] = NOT_GIVEN,
        group_by: Union[str, NotGiven] = NOT_GIVEN,
    ) -> Union[UsageTotals, GroupedUsageTotals]:
        """Get usage totals.

        Returns the used quantities, by event and unit, of events that occurred in `[from, to)`.
        These are not debits. `groupBy` groups them by event, model, member and hour, day or month,
        together with the debited amounts and the meters; it needs `from`. A span of more than
        200,000 events is rejected. A browser may call it with a publishable key and the user's
        token, for that user only, for up to 5,000 events.

        `user_id`: Your own id of the user.
        `member_id`: Only this member's usage. Needs a secret key.
        `event`: An event name or a glob.
        `from_`: Only events that occurred at this time or later.
        `to`: Only events that occurred before this time.
        `group_by`: Groups, separated by commas: `event`, `model`, `member` (with a secret key), and
        one of `hour`, `day` and `month` (UTC). Needs `from`.
        """
        answer: Union[UsageTotals, GroupedUsageTotals] = await self._call(
            "get_usage_totals",
            {
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "from": from_,
                "to": to,
                "groupBy": group_by,
            },
        )
        return answer

    async def create_reservation(
        self,
        *,
        user_id: str,
        event: str,
        reservation_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        expires_in_seconds: Union[int, NotGiven] = NOT_GIVEN,
        on_expiry: Union[OnExpiry, NotGiven] = NOT_GIVEN,
    ) -> CreatedReservation:
        """Create a reservation.

        Holds the credits that the usage may cost: all or nothing. The hold ends when the
        reservation is committed, released or expires. Held credits pay for their commit or charge
        even if their balance has expired since, but not if it was revoked. With your own
        `reservationId` the call is idempotent. With `onExpiry: "charge"` a reservation that nobody
        settled in time is committed with the reserved quantities, as an event whose `eventId` is
        the `reservationId`.

        `reservation_id`: Your own id makes the call idempotent.
        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `expires_in_seconds`: How long the credits are held. Default: `300`.
        `on_expiry`: When it expires: return the holds, or charge the reserved quantities as an
        event with its id. Default: `return`.
        """
        answer: CreatedReservation = await self._call(
            "create_reservation",
            {
                "reservationId": reservation_id,
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "expiresInSeconds": expires_in_seconds,
                "onExpiry": on_expiry,
            },
        )
        return answer

    async def list_reservations(
        self,
        *,
        user_id: str,
        status: Union[ReservationStatus, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
        cursor: Union[str, NotGiven] = NOT_GIVEN,
    ) -> ReservationList:
        """List a user's reservations.

        Returns the user's reservations, newest first, of one status or of all. An expired
        reservation whose holds have not returned yet already has its later status, and no
        `settledAt`.

        `user_id`: Your own id of the user.
        `status`: Only reservations of this status.
        `limit`: The most reservations in a page.
        `cursor`: The `nextCursor` of the previous page.
        """
        answer: ReservationList = await self._call(
            "list_reservations",
            {
                "userId": user_id,
                "status": status,
                "limit": limit,
                "cursor": cursor,
            },
        )
        return answer

    def iter_reservations(
        self,
        *,
        user_id: str,
        status: Union[ReservationStatus, NotGiven] = NOT_GIVEN,
        limit: Union[int, NotGiven] = NOT_GIVEN,
    ) -> AsyncIterator[Reservation]:
        """Iterate over all entries of `list_reservations`: `async for entry in …`."""
        return self._entries(
            "list_reservations",
            {
                "userId": user_id,
                "status": status,
                "limit": limit,
            },
        )

    async def get_reservation(self, *, reservation_id: str) -> Reservation:
        """Get a reservation.

        Returns the current state of a reservation. An expired reservation whose holds have not
        returned yet already has its later status, and no `settledAt`.

        `reservation_id`: The id of the reservation, `res_…`.
        """
        answer: Reservation = await self._call(
            "get_reservation",
            {
                "reservationId": reservation_id,
            },
        )
        return answer

    async def commit_reservation(
        self,
        *,
        reservation_id: str,
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_shortage: Union[OnShortage, NotGiven] = NOT_GIVEN,
    ) -> UsageEventResult:
        """Commit a reservation.

        Releases the holds and debits the actual usage in one transaction. The usage may be less or
        more than was held. The balances of the holds pay first; one that has expired since pays
        what is held of it. A `model` replaces the reservation's. A commit after the reservation
        expired counts as a plain event, unless the reservation was charged. On 402 the hold
        remains.

        `reservation_id`: The id of the reservation, `res_…`.
        `event_id`: Your own id of the event: its idempotency key. It does not expire. It must not
        begin with `res_`.
        `model`: The model that was used, if it is not the reserved one. The usage is matched and
        counted by it.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `occurred_at`: The time of the usage, at most a day ahead. Default: now.
        `properties`: Stored with the event and contained in the person's export.
        `on_shortage`: If credits are insufficient: reject, or debit what is available and report
        the rest. Default: `reject`.
        """
        answer: UsageEventResult = await self._call(
            "commit_reservation",
            {
                "reservationId": reservation_id,
                "eventId": event_id,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "occurredAt": occurred_at,
                "properties": properties,
                "onShortage": on_shortage,
            },
        )
        return answer

    async def extend_reservation(
        self,
        *,
        reservation_id: str,
        expires_in_seconds: int,
    ) -> Reservation:
        """Extend a reservation.

        Moves the expiry of an open reservation to `expiresInSeconds` from now. The expiry never
        becomes earlier, and is at most a day after the reservation was created.

        `reservation_id`: The id of the reservation, `res_…`.
        `expires_in_seconds`: How long the credits are held from now on.
        """
        answer: Reservation = await self._call(
            "extend_reservation",
            {
                "reservationId": reservation_id,
                "expiresInSeconds": expires_in_seconds,
            },
        )
        return answer

    async def release_reservation(self, *, reservation_id: str) -> ReservationRelease:
        """Release a reservation.

        Returns the held credits. Releasing the reservation again, or after it expired, returns the
        same result. A reservation that was committed or charged is closed.

        `reservation_id`: The id of the reservation, `res_…`.
        """
        answer: ReservationRelease = await self._call(
            "release_reservation",
            {
                "reservationId": reservation_id,
            },
        )
        return answer

    async def get_usage_limits(
        self,
        *,
        user_id: str,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UserUsageLimits:
        """Get a user's usage limits.

        Returns the used amount of each limit in the current window, including open holds, in the
        order in which the limits were created. With `memberId`, that member's limits per member are
        among them. A browser may call it with the user's token, or with a member's for a payer that
        the token names by `payerClaim`: then it returns that member's limits alone.

        `user_id`: Your own id of the user.
        `member_id`: The member, for limits per member.
        """
        answer: UserUsageLimits = await self._call(
            "get_usage_limits",
            {
                "userId": user_id,
                "memberId": member_id,
            },
        )
        return answer

    async def set_own_usage_limit(
        self,
        *,
        limit_id: str,
        user_id: str,
        amount: Optional[Amount],
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
    ) -> UserUsageLimit:
        """Override a limit for a user.

        Sets an amount that replaces the amount of the limit for one user. It takes effect at once,
        also in the current window. If the amount is null, the limit does not apply to this user. A
        limit per member needs the `memberId`; other limits reject one.

        `limit_id`: The id of the limit, `lim_…`.
        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `amount`: The override, in the limit's unit; 0 or more. Null: this user is unlimited.
        """
        answer: UserUsageLimit = await self._call(
            "set_own_usage_limit",
            {
                "limitId": limit_id,
                "userId": user_id,
                "memberId": member_id,
                "amount": amount,
            },
        )
        return answer

    async def remove_own_usage_limit(
        self,
        *,
        limit_id: str,
        user_id: str,
        member_id: Union[str, NotGiven] = NOT_GIVEN,
    ) -> UserUsageLimit:
        """Remove a user's override of a limit.

        Restores the limit's amount for the user, or for a member. Returns 200 also if there is no
        override.

        `limit_id`: The id of the limit, `lim_…`.
        `user_id`: Your own id of the user.
        `member_id`: The member, for limits per member.
        """
        answer: UserUsageLimit = await self._call(
            "remove_own_usage_limit",
            {
                "limitId": limit_id,
                "userId": user_id,
                "memberId": member_id,
            },
        )
        return answer

    async def record_consent(
        self,
        *,
        distinct_id: str,
        purpose: str,
        decision: ConsentDecision,
        method: Union[str, NotGiven] = NOT_GIVEN,
        notice_version: Union[str, NotGiven] = NOT_GIVEN,
        source: Union[str, NotGiven] = NOT_GIVEN,
        gpc: Union[bool, NotGiven] = NOT_GIVEN,
        is_device: Union[bool, NotGiven] = NOT_GIVEN,
        occurred_at: Union[Time, NotGiven] = NOT_GIVEN,
    ) -> ConsentEntry:
        """Record a consent decision.

        Adds an entry to the person's consent log. Entries cannot be changed or removed. Every
        export contains them. A browser may call it with a publishable key and the user's token in
        `X-User-Token`, for that user only.

        `distinct_id`: Any distinct id of the person.
        `purpose`: The purpose that was asked for, such as `analytics`.
        `method`: How the decision was given, such as `banner`.
        `notice_version`: The version of the notice that was shown.
        `source`: Where it was given, such as a page.
        `gpc`: Whether the browser sent Global Privacy Control.
        `is_device`: Whether the consent is of an anonymous visitor, and the id is an SDK's device
        id. Otherwise the id is a user from then on, and no publishable key can link it. Only with a
        secret key.
        `occurred_at`: When the decision was given. Default: now. With a publishable key at most a
        day ago and 5 minutes ahead; `denied` and `withdrawn` are stored anyway, with the time of
        arrival.
        """
        answer: ConsentEntry = await self._call(
            "record_consent",
            {
                "distinctId": distinct_id,
                "purpose": purpose,
                "decision": decision,
                "method": method,
                "noticeVersion": notice_version,
                "source": source,
                "gpc": gpc,
                "isDevice": is_device,
                "occurredAt": occurred_at,
            },
        )
        return answer

    async def erase_person(
        self,
        *,
        distinct_id: str,
        dry_run: Union[bool, NotGiven] = NOT_GIVEN,
        distinct_ids: Union[Sequence[str], NotGiven] = NOT_GIVEN,
        distinct_id_count: Union[int, NotGiven] = NOT_GIVEN,
        block_ids: Union[Sequence[str], NotGiven] = NOT_GIVEN,
        keep_consent: Union[bool, NotGiven] = NOT_GIVEN,
        reason: Union[ErasureReason, NotGiven] = NOT_GIVEN,
    ) -> ErasedPerson:
        """Erase a person.

        Deletes the person's data, and removes their names from the books. Remaining credits are
        revoked, and open reservations are released. From then on, writes for these ids are
        `person_erased`, and their analytics events get the usual response but are not stored. Try
        it with `dryRun: true` first. A repeat returns the same erasure, and continues it if it is
        still running.

        `distinct_id`: Any id of the person. That id and all ids that it claims are erased.
        `dry_run`: Changes nothing, and returns what would be erased. Default: `false`.
        `distinct_ids`: The person's ids, as a dry run listed them. If they have changed since,
        nothing is erased. You may leave out ids that only claims by publishable keys reach. They
        are then not erased.
        `distinct_id_count`: How many ids the person has, as a dry run counted them. Use it instead
        of `distinctIds` for a person with more ids than that list may have. If the number has
        changed since, nothing is erased.
        `block_ids`: Further ids to block, among those that only claims by publishable keys reach.
        Purser stores nothing more for a blocked id. For an id that is not blocked, only mentions
        are removed, until something new is sent with it.
        `keep_consent`: Keeps the consent log as evidence of the decisions, with a keyed hash in
        place of each id. Default: `false`.
        `reason`: The reason for the erasure, for the receipt.
        """
        answer: ErasedPerson = await self._call(
            "erase_person",
            {
                "distinctId": distinct_id,
                "dryRun": dry_run,
                "distinctIds": distinct_ids,
                "distinctIdCount": distinct_id_count,
                "blockIds": block_ids,
                "keepConsent": keep_consent,
                "reason": reason,
            },
        )
        return answer

    async def get_erasure(self, *, erasure_id: str) -> Erasure:
        """Get an erasure and its receipt.

        Returns an erasure: the erased and the kept data, the time, the key and the reason. It
        contains no personal data.

        `erasure_id`: The erasure's id.
        """
        answer: Erasure = await self._call(
            "get_erasure",
            {
                "erasureId": erasure_id,
            },
        )
        return answer

    async def lift_erasure(self, *, erasure_id: str) -> Erasure:
        """Lift an erasure.

        Allows the ids of an erasure again. Erased data is not restored. A running erasure cannot be
        lifted yet.

        `erasure_id`: The erasure's id.
        """
        answer: Erasure = await self._call(
            "lift_erasure",
            {
                "erasureId": erasure_id,
            },
        )
        return answer

    async def create_export_link(self, *, distinct_id: str) -> ExportLink:
        """Create a download link for a person's data.

        Creates a link that is valid for 24 hours and needs no key. Give it only to the person. No
        data is read yet, so a link is returned even if nothing is stored. The request is recorded
        and appears in the export.

        `distinct_id`: Any id of the person: one that your analytics, credits or consents use.
        """
        answer: ExportLink = await self._call(
            "create_export_link",
            {
                "distinctId": distinct_id,
            },
        )
        return answer

    async def revoke_export_links(self, *, distinct_id: str) -> RevokedExportLinks:
        """Revoke a person's download links.

        Ends every link that was created for this id until now. From then on, such a link is
        rejected like an expired one. A download that has begun is finished. Links for other ids of
        the person stay valid.

        `distinct_id`: The id that the links were created for.
        """
        answer: RevokedExportLinks = await self._call(
            "revoke_export_links",
            {
                "distinctId": distinct_id,
            },
        )
        return answer

    async def download_export(self, *, token: str) -> PersonExport:
        """Download a person's data.

        Opens a link of `createExportLink`. The document is generated while it is sent, and has the
        state of one moment, `exportedAt`. If the download is interrupted, the JSON is incomplete
        and does not parse. A link may be opened again. The person is the requested id and the ids
        that are linked to it. A browser that opens a link which is not valid (`Accept` names
        `text/html`) sees a short page instead of the JSON of the 401.

        `token`: The `token` of the `downloadUrl`.
        """
        answer: PersonExport = await self._call(
            "download_export",
            {
                "token": token,
            },
        )
        return answer

    async def get_export_document_schema(self) -> JsonSchemaDocument:
        """Get the JSON Schema of the export document.

        Returns the JSON Schema of the document that `downloadExport` returns.
        """
        answer: JsonSchemaDocument = await self._call(
            "get_export_document_schema",
            {},
        )
        return answer

    async def check_health(self) -> Health:
        """Check health.

        Runs one trivial query on the database.
        """
        answer: Health = await self._call(
            "check_health",
            {},
        )
        return answer

    async def get_open_api(self) -> OpenApiDocument:
        """Get the OpenAPI document.

        The whole API as OpenAPI 3.1, generated from the schemas that validate requests.
        """
        answer: OpenApiDocument = await self._call(
            "get_open_api",
            {},
        )
        return answer

    def hold(
        self,
        *,
        user_id: str,
        event: str,
        reservation_id: Union[str, NotGiven] = NOT_GIVEN,
        member_id: Union[Optional[str], NotGiven] = NOT_GIVEN,
        model: Union[Optional[str], NotGiven] = NOT_GIVEN,
        quantities: Union[UsageQuantities, NotGiven] = NOT_GIVEN,
        meters: Union[Meters, NotGiven] = NOT_GIVEN,
        expires_in_seconds: Union[int, NotGiven] = NOT_GIVEN,
        on_expiry: Union[OnExpiry, NotGiven] = NOT_GIVEN,
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_error: Literal["commit", "release"] = "commit",
    ) -> AsyncHold:
        """Reserve credits while work runs, and commit its usage.

        `async with purser.hold(…) as hold:`

        Report the usage with `hold.used`. If the work raises, or is cancelled, the usage that it
        reported until then is committed; with `on_error="release"` all credits return. If it
        reported nothing, they return. A commit that fails for good leaves the credits to
        `on_expiry`. Raises `InsufficientCredits` before the work begins.

        `event_id`: The id of the usage event. The client makes one if it is absent.
        `properties`: Stored with the usage event.
        `reservation_id`: Your own id makes the call idempotent.
        `user_id`: Your own id of the user.
        `member_id`: Your own id of who used it, if the user pays for a team.
        `event`: The event's name, such as `chat.completed`.
        `model`: The model that was used, for rules with a model.
        `quantities`: The usage in each unit. `count` is 1 unless it is given. Not together with
        `meters`.
        `meters`: The usage by meter, which the price list turns into quantities.
        `expires_in_seconds`: How long the credits are held. Default: `300`.
        `on_expiry`: When it expires: return the holds, or charge the reserved quantities as an
        event with its id. Default: `return`.
        """
        return AsyncHold(
            cast("AsyncPurser", self),
            {
                "reservationId": reservation_id,
                "userId": user_id,
                "memberId": member_id,
                "event": event,
                "model": model,
                "quantities": quantities,
                "meters": meters,
                "expiresInSeconds": expires_in_seconds,
                "onExpiry": on_expiry,
            },
            event_id,
            properties,
            on_error,
        )
