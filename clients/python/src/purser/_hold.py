"""Holds: credits that are reserved while work runs. `with purser.hold(…) as hold:`."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Callable, Literal, Mapping

from ._exchange import Steps, logger
from ._json import dumps
from ._request import NOT_GIVEN, NotGiven, made_id
from .errors import PurserError
from .types import Hold as HeldAmounts
from .types import Number, Quantities, UsageEventResult, UsageQuantities

if TYPE_CHECKING:
    from ._client import AsyncPurser, Purser

EXPIRES_IN_SECONDS = 300

OnError = Literal["commit", "release"]
Call = Callable[[str, Mapping[str, Any]], Steps]


class _Hold:
    """What both holds do, as steps that a client runs."""

    #: The id of the usage event that the commit records.
    event_id: str
    reservation_id: str
    #: The held amount of each balance.
    holds: list[HeldAmounts]

    def __init__(
        self,
        call: Call,
        reservation: Mapping[str, Any],
        event_id: str | NotGiven,
        properties: Mapping[str, Any] | NotGiven | None,
        on_error: OnError,
    ) -> None:
        if on_error not in ("commit", "release"):
            raise ValueError('hold: on_error is "commit" or "release".')
        self._call = call
        given = {name: value for name, value in reservation.items() if value is not NOT_GIVEN}
        self._reservation = {"reservationId": made_id("res_"), **given}
        self.reservation_id = self._reservation["reservationId"]
        self.event_id = made_id() if isinstance(event_id, NotGiven) else event_id
        self._properties = properties
        self._on_error = on_error
        self._is_open = False
        self._used: dict[str, Any] | None = None
        self._usage: UsageEventResult | None = None
        # The commit would be rejected for these too, but the work would be done by then.
        dumps("hold", {} if properties is NOT_GIVEN else properties, "properties")

    def used(
        self,
        quantities: UsageQuantities | NotGiven = NOT_GIVEN,
        *,
        meters: Mapping[str, Number] | NotGiven = NOT_GIVEN,
        model: str | NotGiven | None = NOT_GIVEN,
    ) -> None:
        """Reports the total usage so far, and the model if it is not the reserved one.

        Either quantities or `meters`, which the price list turns into quantities. The latest report
        counts, also when the work raises afterwards.
        """
        if not self._is_open:
            raise RuntimeError("The hold has ended, or has not begun: this usage would be lost.")
        if (quantities is NOT_GIVEN) == (meters is NOT_GIVEN):
            raise TypeError("hold.used takes quantities or meters, and not both.")
        given = {"quantities": quantities, "meters": meters, "model": model}
        used = {name: value for name, value in given.items() if value is not NOT_GIVEN}
        dumps("hold.used", used)
        self._used = used

    @property
    def usage(self) -> UsageEventResult:
        """The answer of the commit, after the block."""
        if self._usage is None:
            raise RuntimeError("The hold was not committed.")
        return self._usage

    @property
    def uncovered(self) -> Quantities | None:
        """The quantities that no balance paid for. None when the credits covered the usage."""
        return self.usage["uncovered"]

    def _open(self) -> Steps:
        answer = yield from self._call("create_reservation", self._reservation)
        self.holds = answer["holds"]
        self._is_open = True
        return self

    @property
    def _extend_every_seconds(self) -> float:
        return self._reservation.get("expiresInSeconds", EXPIRES_IN_SECONDS) / 2

    def _extend(self) -> Steps:
        fields = {
            "reservationId": self.reservation_id,
            "expiresInSeconds": self._reservation.get("expiresInSeconds", EXPIRES_IN_SECONDS),
        }
        try:
            yield from self._call("extend_reservation", fields)
        except PurserError as error:
            # A commit after the expiry still counts, so the work goes on.
            logger.info("The hold %s was not extended: %s", self.reservation_id, error.code)

    def _release(self) -> Steps:
        try:
            yield from self._call("release_reservation", {"reservationId": self.reservation_id})
        except PurserError as error:
            logger.warning(
                "The hold %s was not released, and ends by its on_expiry: %s",
                self.reservation_id,
                error.code,
            )

    def _commit(self) -> Steps:
        fields = {
            "reservationId": self.reservation_id,
            "eventId": self.event_id,
            **(self._used or {}),
            # The work is done, so the balances pay as much as they can. `uncovered` is the rest.
            "onShortage": "partial",
            "properties": self._properties,
        }
        self._usage = yield from self._call("commit_reservation", fields)

    def _settle(self, has_raised: bool) -> Steps:
        """Commits or releases. When the work raised, its own exception goes on."""
        self._is_open = False
        if self._used is None or (has_raised and self._on_error == "release"):
            yield from self._release()
            if not has_raised:
                raise RuntimeError(
                    'The work did not report its usage. Call hold.used({"tokens": 812}).'
                )
            return
        try:
            yield from self._commit()
        except PurserError as error:
            if not has_raised:
                raise
            logger.warning(
                "The hold %s was not committed, and ends by its on_expiry: %s",
                self.reservation_id,
                error.code,
            )


class Hold(_Hold):
    """Credits that are reserved while the block of a `with` statement runs."""

    def __init__(
        self,
        purser: Purser,
        reservation: Mapping[str, Any],
        event_id: str | NotGiven,
        properties: Mapping[str, Any] | NotGiven | None,
        on_error: OnError,
    ) -> None:
        super().__init__(purser._steps, reservation, event_id, properties, on_error)
        self._purser = purser
        self._has_ended = threading.Event()

    def __enter__(self) -> Hold:
        self._purser._run(self._open())
        threading.Thread(target=self._keep_open, name="purser-hold", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._has_ended.set()
        self._purser._run(self._settle(kind is not None))

    def _keep_open(self) -> None:
        while not self._has_ended.wait(self._extend_every_seconds):
            try:
                self._purser._run(self._extend())
            except RuntimeError:
                # The client was closed during the work.
                return


class AsyncHold(_Hold):
    """Credits that are reserved while the block of an `async with` statement runs.

    The block may be cancelled at any time. If it is cancelled again during the commit, the commit
    goes on in the background, and `aclose` of the client waits for it.
    """

    def __init__(
        self,
        purser: AsyncPurser,
        reservation: Mapping[str, Any],
        event_id: str | NotGiven,
        properties: Mapping[str, Any] | NotGiven | None,
        on_error: OnError,
    ) -> None:
        super().__init__(purser._steps, reservation, event_id, properties, on_error)
        self._purser = purser
        self._has_ended: asyncio.Event | None = None

    async def __aenter__(self) -> AsyncHold:
        opening = self._purser._start(self._purser._run(self._open()))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The block never runs, so its credits return as soon as the reservation is known.
            self._purser._start(self._abandon(opening))
            raise
        self._has_ended = asyncio.Event()
        # `aclose` does not wait for this task, which lasts as long as the work.
        self._keeper = asyncio.ensure_future(self._keep_open(self._has_ended))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._has_ended is not None:
            self._has_ended.set()
        await self._purser._outlive(self._purser._run(self._settle(kind is not None)))

    async def _abandon(self, opening: asyncio.Task[Any]) -> None:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            await self._purser._run(self._release())

    async def _keep_open(self, has_ended: asyncio.Event) -> None:
        while not has_ended.is_set():
            try:
                await asyncio.wait_for(has_ended.wait(), self._extend_every_seconds)
            except asyncio.TimeoutError:
                try:
                    await self._purser._run(self._extend())
                except RuntimeError:
                    # The client was closed during the work.
                    return
