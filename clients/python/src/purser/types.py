"""The types of what is sent and received. Their names are those of the reference.

Made from openapi.json by scripts/generate.mjs.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import (
    Any,
    Dict,
    List,
    Literal,
    Mapping,
    Optional,
    TypedDict,
    Union,
)

#: An amount that you send.
Amount = Union[int, float, Decimal]
#: An amount in an answer, with all its digits.
Number = Union[int, Decimal]
#: A time that you send: text in RFC 3339, or a datetime with a time zone.
Time = Union[str, datetime]

GrantSource = Literal["purchase", "grant", "refund", "manual"]
Unit = Literal["count", "tokens", "seconds", "cents"]
Every = Literal["day", "week", "month", "year"]
RecurringStatus = Literal["active", "suspended", "ended"]
BalanceKind = Literal["per_type", "generic"]
BalanceStatus = Literal["active", "expired", "depleted", "revoked"]
LedgerReason = Literal[
    "event_committed",
    "reservation_held",
    "reservation_released",
    "reservation_expired",
    "grant",
    "admin_adjust",
]
LedgerCause = Literal[
    "grant",
    "recurring",
    "payment",
    "usage",
    "hold",
    "hold_returned",
    "adjustment",
    "revoke",
    "refund",
    "payment_taken",
    "payment_restored",
    "erasure",
]
SkipReason = Literal["revoked", "expired", "depleted", "no_match", "wrong_unit", "not_needed"]
OnShortage = Literal["reject", "partial"]
TokenRejection = Literal[
    "malformed",
    "algorithm",
    "no_key",
    "signature",
    "expired",
    "not_yet_valid",
    "issuer",
    "audience",
    "claim",
]
ShortageReason = Literal["exhausted", "wrong_unit", "no_match"]
Scope = Literal["read", "people", "write", "grants", "settings", "access"]
Mode = Literal["live", "test"]
OnExpiry = Literal["return", "charge"]
ReservationStatus = Literal["open", "committed", "released", "expired"]
UsageLimitWindow = Literal["minute", "hour", "day", "week", "month"]
ConsentDecision = Literal["granted", "denied", "withdrawn"]
ErasureStatus = Literal["running", "completed"]
ErasureReason = Literal[
    "request",
    "consent_withdrawn",
    "objection",
    "not_needed",
    "unlawful",
    "legal_duty",
]


class NamesOfUnits(TypedDict):
    names: UnitNames


class UnitNames(TypedDict, total=False):
    """The names, by unit. A unit without one has its usual name."""

    count: UnitName
    tokens: UnitName
    seconds: UnitName
    cents: UnitName


class UnitName(TypedDict):
    one: str
    other: str


class GrantResult(TypedDict):
    balances: List[IssuedBalance]
    balanceId: str
    remaining: Number
    expiresAt: Optional[str]


class IssuedBalance(TypedDict):
    balanceId: str
    packItemId: Optional[str]
    remaining: Number
    expiresAt: Optional[str]


class RevokeResult(TypedDict):
    balanceId: str
    remaining: int


class RefundResult(TypedDict):
    refundRef: str
    externalRef: str
    balances: List[RefundedBalance]


class RefundedBalance(TypedDict):
    balanceId: str
    packItemId: Optional[str]
    unit: Unit
    taken: Number
    short: Number
    remaining: Number


class RefundShare(TypedDict):
    part: int
    of: int


class RecurringGrant(TypedDict):
    recurringId: str
    userId: str
    packId: str
    packName: str
    quantity: Optional[Number]
    every: Every
    startsAt: str
    endsAt: Optional[str]
    rolloverPeriods: Optional[Number]
    timeZone: str
    status: RecurringStatus
    reason: Optional[str]
    period: Optional[RecurringPeriod]
    nextAt: Optional[str]
    createdAt: str


RecurringPeriod = TypedDict(
    "RecurringPeriod",
    {
        "n": "Number",
        "from": "str",
        "to": "str",
    },
)


class RecurringGrantList(TypedDict):
    recurring: List[RecurringGrant]


class CreditBalanceList(TypedDict):
    credits: List[CreditBalance]


class CreditBalance(TypedDict):
    balanceId: str
    packId: str
    packName: str
    packItemId: Optional[str]
    kind: BalanceKind
    unit: Unit
    remaining: Number
    initial: Number
    grantedAt: str
    expiresAt: Optional[str]
    status: BalanceStatus
    matches: List[MatchRule]
    priority: Number


class MatchRule(TypedDict, total=False):
    event: str
    model: str


class LedgerPage(TypedDict):
    entries: List[LedgerEntry]
    nextCursor: Optional[str]


class LedgerEntry(TypedDict):
    id: str
    balanceId: str
    packId: str
    delta: Number
    unit: Unit
    reason: LedgerReason
    cause: LedgerCause
    eventId: Optional[str]
    reservationId: Optional[str]
    occurredAt: str
    note: Optional[str]
    by: str


class CreditUserList(TypedDict):
    users: List[CreditUser]
    nextCursor: Optional[str]


class CreditUser(TypedDict):
    userId: str
    balances: int
    remaining: SummedQuantities
    nextExpiresAt: Optional[str]


class SummedQuantities(TypedDict, total=False):
    count: Number
    tokens: Number
    seconds: Number
    cents: Number


class DebitPlan(TypedDict):
    memberId: Optional[str]
    quantities: Quantities
    meters: Optional[SentMeters]
    priceVersion: Optional[int]
    debits: List[Debit]
    uncovered: Optional[Quantities]
    skipped: List[SkippedBalance]
    limits: List[RefusingUsageLimit]


class Quantities(TypedDict, total=False):
    count: Number
    tokens: Number
    seconds: Number
    cents: Number


class Debit(TypedDict):
    balanceId: str
    packId: str
    unit: Unit
    amount: Number
    remaining: Number


class SkippedBalance(TypedDict):
    balanceId: str
    packName: str
    unit: Unit
    remaining: Number
    reason: SkipReason


class RefusingUsageLimit(TypedDict):
    limitId: str
    memberId: Optional[str]
    name: str
    unit: Unit
    amount: Number
    used: Number
    asked: Number
    resetsAt: str


class UsageQuantities(TypedDict, total=False):
    count: Amount
    tokens: Amount
    seconds: Amount
    cents: Amount


class LedgerVerification(TypedDict):
    userId: str
    balances: int
    entries: int
    isSound: bool
    flaws: List[LedgerFlaw]
    nextCursor: Optional[str]


class _LedgerFlaw(TypedDict):
    balanceId: Optional[str]
    kind: Literal["sum", "gap", "chain", "below_zero", "limit", "owed"]


class LedgerFlaw(_LedgerFlaw, total=False):
    limitId: str
    memberId: Optional[str]


class _UsageEventResult(TypedDict):
    eventId: str
    debits: List[Debit]
    uncovered: Optional[Quantities]


class UsageEventResult(_UsageEventResult, total=False):
    quantities: Quantities
    meters: SentMeters
    priceVersion: int


class UsageEventPage(TypedDict):
    events: List[StoredUsageEvent]
    nextCursor: Optional[str]


class _StoredUsageEvent(TypedDict):
    eventId: str
    event: str
    model: Optional[str]
    quantities: Quantities
    meters: Optional[SentMeters]
    priceVersion: Optional[int]
    occurredAt: str
    receivedAt: str
    reservationId: Optional[str]
    debits: List[HeldAmount]
    uncovered: Optional[Quantities]


class StoredUsageEvent(_StoredUsageEvent, total=False):
    memberId: Optional[str]
    cost: Optional[Number]
    properties: Optional[Dict[str, Any]]


class HeldAmount(TypedDict):
    balanceId: str
    packId: str
    unit: Unit
    amount: Number


class _UsageEventOfUser(TypedDict):
    eventId: str
    event: str
    model: Optional[str]
    quantities: Quantities
    meters: Optional[SentMeters]
    priceVersion: Optional[int]
    occurredAt: str
    receivedAt: str
    reservationId: Optional[str]
    debits: List[HeldAmount]
    uncovered: Optional[Quantities]
    userId: str


class UsageEventOfUser(_UsageEventOfUser, total=False):
    memberId: Optional[str]
    cost: Optional[Number]
    properties: Optional[Dict[str, Any]]


class UsageEventList(TypedDict):
    results: List[Union[UsageEventListResult, UsageEventError]]


class _UsageEventListResult(TypedDict):
    eventId: str
    debits: List[Debit]
    uncovered: Optional[Quantities]


class UsageEventListResult(_UsageEventListResult, total=False):
    quantities: Quantities
    meters: SentMeters
    priceVersion: int
    isReplayed: Literal[True]


class UsageEventError(TypedDict):
    eventId: Optional[str]
    error: ErrorDetail


class _InvalidRequestError(TypedDict):
    code: Literal["invalid_request"]
    message: str
    requestId: str


class InvalidRequestError(_InvalidRequestError, total=False):
    param: str
    details: InvalidRequestErrorDetails


class InvalidRequestErrorDetails(TypedDict):
    """Present if there are already as many objects as allowed, or if a list would have too many."""

    limit: int


class _InvalidUserTokenError(TypedDict):
    code: Literal["invalid_user_token"]
    message: str
    requestId: str


class InvalidUserTokenError(_InvalidUserTokenError, total=False):
    param: str
    details: InvalidUserTokenErrorDetails


class InvalidUserTokenErrorDetails(TypedDict):
    """The reason why the token was rejected. Absent when no token was sent."""

    reason: TokenRejection


class _InsufficientCreditsError(TypedDict):
    code: Literal["insufficient_credits"]
    message: str
    requestId: str
    details: InsufficientCreditsErrorDetails


class InsufficientCreditsError(_InsufficientCreditsError, total=False):
    param: str


class InsufficientCreditsErrorDetails(TypedDict):
    """Details for programs."""

    uncovered: Quantities
    skipped: List[ShortBalance]
    quantities: Quantities
    meters: Optional[SentMeters]
    priceVersion: Optional[int]


class ShortBalance(TypedDict):
    balanceId: str
    packName: str
    unit: Unit
    remaining: Number
    reason: ShortageReason


class _ForbiddenError(TypedDict):
    code: Literal["forbidden"]
    message: str
    requestId: str


class ForbiddenError(_ForbiddenError, total=False):
    param: str
    details: ForbiddenErrorDetails


class ForbiddenErrorDetails(TypedDict, total=False):
    """Present when an administration key may not do this."""

    scope: Scope
    appId: Optional[str]
    mode: Mode


class _PriceNotFoundError(TypedDict):
    code: Literal["price_not_found"]
    message: str
    requestId: str
    details: PriceNotFoundErrorDetails


class PriceNotFoundError(_PriceNotFoundError, total=False):
    param: str


class _PriceNotFoundErrorDetails(TypedDict):
    event: str
    model: Optional[str]
    meters: List[str]


class PriceNotFoundErrorDetails(_PriceNotFoundErrorDetails, total=False):
    """Details for programs."""

    unit: Unit


class _IdempotencyConflictError(TypedDict):
    code: Literal["idempotency_conflict"]
    message: str
    requestId: str
    details: IdempotencyConflictErrorDetails


class IdempotencyConflictError(_IdempotencyConflictError, total=False):
    param: str


class IdempotencyConflictErrorDetails(TypedDict):
    """Details for programs."""

    differs: List[str]


class _ChangedMeanwhileError(TypedDict):
    code: Literal["changed_meanwhile"]
    message: str
    requestId: str


class ChangedMeanwhileError(_ChangedMeanwhileError, total=False):
    param: str
    details: ChangedMeanwhileErrorDetails


class ChangedMeanwhileErrorDetails(TypedDict, total=False):
    """Details for programs."""

    version: int
    distinctIds: List[str]
    distinctIdCount: int


class _PersonErasedError(TypedDict):
    code: Literal["person_erased"]
    message: str
    requestId: str


class PersonErasedError(_PersonErasedError, total=False):
    param: str
    details: PersonErasedErrorDetails


class PersonErasedErrorDetails(TypedDict):
    """Details for programs."""

    field: Literal["memberId"]


class _TestQuotaExceededError(TypedDict):
    code: Literal["test_quota_exceeded"]
    message: str
    requestId: str
    details: TestQuotaExceededErrorDetails


class TestQuotaExceededError(_TestQuotaExceededError, total=False):
    param: str


class TestQuotaExceededErrorDetails(TypedDict):
    """Details for programs."""

    quota: int


class _UsageLimitReachedError(TypedDict):
    code: Literal["usage_limit_reached"]
    message: str
    requestId: str
    details: RefusingUsageLimit


class UsageLimitReachedError(_UsageLimitReachedError, total=False):
    param: str


class _ExportUnavailableError(TypedDict):
    code: Literal["export_unavailable"]
    message: str
    requestId: str


class ExportUnavailableError(_ExportUnavailableError, total=False):
    param: str
    details: ExportUnavailableErrorDetails


class ExportUnavailableErrorDetails(TypedDict):
    """Details for programs."""

    reason: Literal["too_large"]


class _OtherError(TypedDict):
    code: Literal[
        "invalid_quantity",
        "invalid_signature",
        "invalid_key",
        "invalid_or_expired_token",
        "requires_secret_key",
        "not_found",
        "credit_pack_not_found",
        "credit_balance_not_found",
        "reservation_not_found",
        "method_not_allowed",
        "reservation_closed",
        "pack_name_taken",
        "payload_too_large",
        "rate_limited",
        "internal_error",
        "erasure_unavailable",
        "secrets_unavailable",
        "temporarily_unavailable",
    ]
    message: str
    requestId: str


class OtherError(_OtherError, total=False):
    param: str


class _UsageEvent(TypedDict):
    userId: str
    event: str


class UsageEvent(_UsageEvent, total=False):
    eventId: str
    memberId: Optional[str]
    model: Optional[str]
    quantities: UsageQuantities
    meters: Meters
    occurredAt: Time
    properties: Optional[Mapping[str, Any]]
    onShortage: OnShortage


class UsagePrice(TypedDict):
    quantities: Quantities
    priceVersion: Optional[int]
    rules: List[AppliedPriceRule]


class AppliedPriceRule(TypedDict):
    unit: Unit
    rule: int


class UsageMembers(TypedDict):
    members: List[UsageOfMember]
    nextCursor: Optional[str]


class UsageOfMember(TypedDict):
    memberId: str
    events: Number
    quantities: SummedQuantities
    debited: SummedQuantities
    lastUsedAt: str


class UsageTotals(TypedDict):
    totals: List[UsageTotal]


class UsageTotal(TypedDict):
    event: str
    unit: Unit
    amount: Number


class GroupedUsageTotals(TypedDict):
    totals: List[GroupedUsageTotal]


class _GroupedUsageTotal(TypedDict):
    events: Number
    quantities: SummedQuantities
    debited: SummedQuantities
    meters: SummedMeters


class GroupedUsageTotal(_GroupedUsageTotal, total=False):
    time: str
    event: str
    model: Optional[str]
    memberId: Optional[str]


class CreatedReservation(TypedDict):
    reservationId: str
    expiresAt: str
    holds: List[Hold]


class Hold(TypedDict):
    balanceId: str
    packId: str
    unit: Unit
    amount: Number
    remaining: Number


class ReservationList(TypedDict):
    reservations: List[Reservation]
    nextCursor: Optional[str]


class Reservation(TypedDict):
    reservationId: str
    userId: str
    memberId: Optional[str]
    event: str
    model: Optional[str]
    quantities: Quantities
    meters: Optional[SentMeters]
    priceVersion: Optional[int]
    onExpiry: OnExpiry
    status: ReservationStatus
    createdAt: str
    expiresAt: str
    settledAt: Optional[str]
    eventId: Optional[str]
    holds: List[HeldAmount]


class ReservationRelease(TypedDict):
    reservationId: str
    status: Literal["released", "expired"]
    returned: List[HeldAmount]


class UserUsageLimits(TypedDict):
    limits: List[UserUsageLimit]


class _UserUsageLimit(TypedDict):
    limitId: str
    name: str
    matches: List[MatchRule]
    unit: Unit
    every: UsageLimitWindow
    timeZone: Optional[str]
    amount: Optional[Number]
    used: Number
    remaining: Optional[Number]
    resetsAt: str


class UserUsageLimit(_UserUsageLimit, total=False):
    memberId: Optional[str]


class ConsentEntry(TypedDict):
    consentId: str
    distinctId: str
    purpose: str
    decision: ConsentDecision
    method: Optional[str]
    noticeVersion: Optional[str]
    source: Optional[str]
    gpc: Optional[bool]
    isDevice: bool
    occurredAt: str
    receivedAt: str


class _ErasedPerson(TypedDict):
    distinctIdCount: int
    erased: ErasedRows
    pseudonymised: PseudonymisedRows
    revoked: Quantities


class ErasedPerson(_ErasedPerson, total=False):
    erasureId: str
    status: ErasureStatus
    distinctIds: List[str]
    notErased: List[str]


class _ErasedRows(TypedDict):
    analytics: int
    ids: int
    properties: int
    notes: int
    messages: int
    customers: int
    refusals: int


class ErasedRows(_ErasedRows, total=False):
    """Deleted rows."""

    consent: int


class PseudonymisedRows(TypedDict):
    """Rows that the books keep, without the values that identify the person."""

    balances: int
    ledger: int
    metering: int
    reservations: int
    recurring: int
    adjustments: int
    refunds: int
    exports: int


class Erasure(TypedDict):
    erasureId: str
    status: ErasureStatus
    distinctIdCount: int
    erased: ErasedRows
    pseudonymised: PseudonymisedRows
    revoked: Quantities
    reason: Optional[ErasureReason]
    keepConsent: bool
    by: str
    fingerprint: str
    startedAt: str
    completedAt: Optional[str]
    recoverableUntil: Optional[str]
    liftedAt: Optional[str]


class ExportLink(TypedDict):
    downloadUrl: str
    expiresAt: str
    format: Literal["json"]


class RevokedExportLinks(TypedDict):
    revoked: int


class PersonExport(TypedDict):
    format: Literal["json"]
    exportedAt: str
    appId: str
    mode: Mode
    distinctId: str
    person: Optional[ExportedPerson]
    events: ExportedEvents
    consentLog: List[ConsentEntry]


class ExportedPerson(TypedDict):
    personId: Optional[str]
    distinctIds: List[ExportedDistinctId]
    properties: Dict[str, Any]
    createdAt: Optional[str]
    lastSeenAt: Optional[str]
    isIdentified: bool
    credits: ExportedCredits
    usageLimits: List[UserUsageLimit]
    notes: List[ExportedNote]
    exports: List[ExportAuditEntry]


class ExportedDistinctId(TypedDict):
    distinctId: str
    linkedAt: str
    via: Optional[Literal["identify", "alias"]]
    claimedBy: Optional[str]
    isVerified: bool


class ExportedCredits(TypedDict):
    balances: List[ExportedBalance]
    ledger: List[ExportedLedgerEntry]
    recurring: List[RecurringGrant]


class ExportedBalance(TypedDict):
    balanceId: str
    packId: str
    packName: str
    packItemId: Optional[str]
    kind: BalanceKind
    unit: Unit
    remaining: Number
    initial: Number
    grantedAt: str
    expiresAt: Optional[str]
    status: BalanceStatus
    matches: List[MatchRule]
    priority: Number
    source: GrantSource
    externalRef: Optional[str]
    notes: Optional[str]


class ExportedLedgerEntry(TypedDict):
    id: str
    balanceId: str
    packId: str
    delta: Number
    unit: Unit
    reason: LedgerReason
    cause: LedgerCause
    eventId: Optional[str]
    reservationId: Optional[str]
    occurredAt: str
    note: Optional[str]


class ExportedNote(TypedDict):
    distinctId: str
    text: str
    createdAt: str


class ExportAuditEntry(TypedDict):
    action: Literal["minted", "opened", "completed", "failed"]
    distinctId: str
    tokenHash: str
    keyId: Optional[str]
    occurredAt: str


class ExportedEvents(TypedDict):
    analytics: List[AnalyticsEvent]
    metering: List[MeteringEvent]


class AnalyticsEvent(TypedDict):
    uuid: str
    event: str
    distinctId: str
    timestamp: str
    receivedAt: str
    isVerified: bool
    properties: Dict[str, Any]


class MeteringEvent(TypedDict):
    role: Literal["payer", "member"]
    eventId: Optional[str]
    memberId: Optional[str]
    userId: Optional[str]
    event: str
    model: Optional[str]
    quantities: Quantities
    meters: Optional[SentMeters]
    priceVersion: Optional[int]
    occurredAt: str
    receivedAt: str
    debits: Optional[List[Debit]]
    uncovered: Optional[Quantities]
    properties: Optional[Dict[str, Any]]


JsonSchemaDocument = TypedDict(
    "JsonSchemaDocument",
    {
        "$schema": "str",
    },
)


class Health(TypedDict):
    status: Literal["ok"]


class OpenApiDocument(TypedDict):
    openapi: str
    info: Dict[str, Any]
    paths: Dict[str, Any]


class Error(TypedDict):
    error: ErrorDetail


SentMeters = Dict[str, Number]
Meters = Mapping[str, Amount]
ErrorDetail = Union[
    InvalidRequestError,
    InvalidUserTokenError,
    InsufficientCreditsError,
    ForbiddenError,
    PriceNotFoundError,
    IdempotencyConflictError,
    ChangedMeanwhileError,
    PersonErasedError,
    TestQuotaExceededError,
    UsageLimitReachedError,
    ExportUnavailableError,
    OtherError,
]
SummedMeters = Dict[str, Any]
