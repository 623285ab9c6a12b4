"""The exceptions of a call."""

from __future__ import annotations

from typing import Any, cast

from .types import Quantities, ShortBalance


class PurserError(Exception):
    """A call failed. Decide by `code`.

    The codes are those of the reference, and two of the client: `no_answer` when no response came,
    and `unknown_answer` when the response is not Purser's.
    """

    code: str
    #: The status of the response; 0 when none came.
    status: int
    message: str
    #: The argument that Purser rejected.
    param: str | None
    #: Further facts about the code, such as the limit of `usage_limit_reached`.
    details: Any
    #: Quote the id when you report a problem.
    request_id: str | None

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        details: Any = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.details = details
        self.request_id = request_id

    def __str__(self) -> str:
        request = "" if self.request_id is None else f" (request {self.request_id})"
        return f"{self.code}: {self.message}{request}"

    def __reduce__(self) -> Any:
        # Exceptions cross processes by pickle, which otherwise calls the class with `args`.
        return (_restored, (type(self), self.__dict__))


class InsufficientCredits(PurserError):
    """The user's balances do not cover the usage. Nothing was debited."""

    @property
    def uncovered(self) -> Quantities:
        """The quantities that no balance covers."""
        return cast(Quantities, self.details["uncovered"])

    @property
    def skipped(self) -> list[ShortBalance]:
        """Why each balance that can pay now does not cover them."""
        return cast("list[ShortBalance]", self.details["skipped"])


def _restored(kind: type[PurserError], fields: dict[str, Any]) -> PurserError:
    error = kind.__new__(kind, fields["message"])
    error.__dict__.update(fields)
    return error


def error_of(status: int, body: Any) -> PurserError:
    """Returns the error for a response whose status is not from 200 to 299."""
    # Purser's errors have this form (W4). A proxy may respond in another form.
    refusal = body.get("error") if isinstance(body, dict) else None
    if not isinstance(refusal, dict) or not isinstance(refusal.get("code"), str):
        return PurserError(
            status,
            "unknown_answer",
            f"The response with status {status} is not from Purser. Check the url, and any proxy "
            "in front of Purser.",
        )
    kind = InsufficientCredits if refusal["code"] == "insufficient_credits" else PurserError
    return kind(
        status,
        refusal["code"],
        str(refusal.get("message", "")),
        param=refusal.get("param"),
        details=refusal.get("details"),
        request_id=refusal.get("requestId"),
    )
