"""What a call does, without input or output: it asks for requests to be sent and for pauses.

`exchange` is a generator. It yields `Send` and gets the response, or the error that prevented one;
it yields `Pause` and gets None. The clients in `_client.py` do both, one blocking and one not.
"""

from __future__ import annotations

import logging
import random
import re
import threading
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, Generator, Mapping, Optional, Union

import httpx

from ._json import loads
from ._request import Request
from .errors import PurserError, error_of

logger = logging.getLogger("purser")

PAUSE_SECONDS = 0.1
#: The longest `Retry-After` that the client waits for. If it is longer, the call raises at once.
RETRY_AFTER_SECONDS_MAX = 60.0

#: The texts of headers. For any other, the error of httpx would show the text.
HEADER_TEXT = re.compile(r"([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)?")

KINDS = {
    "sk": "a secret key, sk_…",
    "pk": "a publishable key, pk_…",
    "rk": "a relay key, rk_…",
    "admin": "the administrator's token or an administration key",
}


class Answer(Dict[str, Any]):
    """The JSON of a response, as a dictionary, with facts about the response."""

    #: Quote the id when you report a problem.
    request_id: str | None = None
    #: Whether this is the response of an earlier call with the same idempotency key.
    is_replayed: bool = False
    headers: httpx.Headers = httpx.Headers()


def about(answer: Any) -> Answer:
    """Returns an answer of this client with the type that has `request_id` and `is_replayed`."""
    if not isinstance(answer, Answer):
        raise TypeError("This is not the answer of a call.")
    return answer


@dataclass(frozen=True)
class Send:
    method: str
    # Tools that report errors show the variables of each frame: no key, no personal data.
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Pause:
    seconds: float


Step = Union[Send, Pause]
Steps = Generator[Step, Union[httpx.Response, httpx.RequestError, None], Any]

OnWarning = Callable[[str, str, Optional[str]], None]
_logged_warnings: set[str] = set()


def log_once(warning: str, operation: str, request_id: str | None) -> None:
    """Logs each warning once, to the logger `purser`."""
    if warning in _logged_warnings:
        return
    _logged_warnings.add(warning)
    logger.warning("%s (%s): %s", operation, request_id, warning)


@dataclass
class Session:
    """The settings of a client, and what it remembers between its calls."""

    url: str
    key: str = field(repr=False)
    user_token: str | Callable[[], str] | None = field(repr=False, default=None)
    retries: int = 4
    on_warning: OnWarning = log_once
    bookmark: str | None = None
    #: Threads that share a client must not replace a bookmark by an older one.
    _lock: threading.Lock = field(repr=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if not re.match(r"https?://.", self.url):
            raise ValueError("Purser needs a url, such as https://purser.example.com.")
        # A header cannot carry other characters, and the error of httpx would show the key.
        if not self.key or not re.fullmatch(r"[\x21-\x7e]+", self.key):
            raise ValueError("Purser needs a key, sk_… or pk_…. Check that its variable is set.")

    def remember(self, bookmark: str | None) -> None:
        """Keeps the newest bookmark. They sort as texts in the order of the database's states."""
        with self._lock:
            if bookmark is not None and bookmark > (self.bookmark or ""):
                self.bookmark = bookmark


def _assert_key(request: Request, key: str, token: str | None) -> None:
    """Raises `ValueError` for a key that the operation never accepts, and for a malformed token."""
    found = re.match(r"(sk|pk|rk)_", key)
    kind = found[1] if found else "admin"
    accepted = request.operation.keys.split()
    if accepted and kind not in accepted:
        needed = ", or ".join(KINDS[name] for name in accepted)
        raise ValueError(f"{request.name} needs {needed}. This client has {KINDS[kind]}.")
    if kind == "pk" and request.operation.takes_user_token and token is None:
        raise ValueError(
            f"{request.name} with a publishable key needs user_token: the user's JWT from your "
            "own sign-in."
        )
    if token is not None and not HEADER_TEXT.fullmatch(token):
        raise ValueError(
            f"{request.name}: user_token is no JWT: it has characters that no header carries."
        )


def _retry_after_seconds(headers: httpx.Headers) -> float | None:
    """Returns how long the response tells the client to wait. None if it does not say."""
    text = headers.get("retry-after")
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=timezone.utc)
    return max((until - datetime.now(timezone.utc)).total_seconds(), 0.0)


@dataclass(frozen=True)
class Outcome:
    """The result of one try: a value or an error."""

    value: Any = None
    error: PurserError | None = None
    #: How long to wait before a retry; None if a retry would not help.
    pause_seconds: float | None = None


def _send_of(session: Session, request: Request) -> Send:
    token = session.user_token() if callable(session.user_token) else session.user_token
    _assert_key(request, session.key, token)
    headers = {"authorization": f"Bearer {session.key}"}
    if request.body is not None:
        headers["content-type"] = "application/json"
    if token is not None:
        headers["x-user-token"] = token
    if request.operation.method == "GET" and session.bookmark is not None:
        headers["x-d1-bookmark"] = session.bookmark
    url = session.url.rstrip("/") + request.path
    return Send(request.operation.method, url, headers, request.body)


def _no_answer(session: Session, request: Request, cause: httpx.RequestError) -> PurserError:
    reason = str(cause) or type(cause).__name__
    path = request.path.split("?")[0]
    host = httpx.URL(session.url).netloc.decode()
    error = PurserError(
        0, "no_answer", f"{request.operation.method} {path} got no answer from {host}: {reason}."
    )
    error.__cause__ = cause
    return error


def _json_in(response: httpx.Response) -> Any:
    try:
        return loads(response.content)
    except (ValueError, RecursionError):
        return None


def _outcome_of(
    session: Session, request: Request, response: httpx.Response, own_pause: float
) -> Outcome:
    headers = response.headers
    session.remember(headers.get("x-d1-bookmark"))
    request_id = headers.get("x-request-id")
    if "purser-warning" in headers:
        for warning in re.split(r"(?<=\.) ", headers["purser-warning"]):
            session.on_warning(warning, request.name, request_id)
    wait = _retry_after_seconds(headers)
    pause = max(wait, own_pause) if wait is not None and wait <= RETRY_AFTER_SECONDS_MAX else None
    body = _json_in(response)
    # A list of events has status 200, and asks for a retry when one of its events met a temporary
    # fault.
    if response.is_success and isinstance(body, dict):
        answer = Answer(body)
        answer.request_id = request_id
        answer.is_replayed = headers.get("idempotent-replayed") == "true"
        answer.headers = headers
        return Outcome(value=answer, pause_seconds=pause)
    error = error_of(response.status_code, body)
    # A request that is rejected with 429 has no effect. A request that gets a 503 may have had one.
    if response.status_code == 429 or (response.status_code == 503 and request.is_repeatable):
        return Outcome(error=error, pause_seconds=pause)
    is_gateway = error.code == "unknown_answer" and response.status_code >= 500
    if is_gateway and request.is_repeatable:
        return Outcome(error=error, pause_seconds=own_pause if pause is None else pause)
    return Outcome(error=error)


def exchange(session: Session, request: Request) -> Steps:
    """Sends a request, and retries where that may help and is safe. Raises `PurserError`."""
    may_be_done = False
    attempt = 0
    while True:
        own_pause = PAUSE_SECONDS * 2**attempt * (0.5 + random.random())
        reply = yield _send_of(session, request)
        if isinstance(reply, httpx.Response):
            outcome = _outcome_of(session, request, reply, own_pause)
        else:
            assert reply is not None
            error = _no_answer(session, request, reply)
            pause = own_pause if request.is_repeatable else None
            outcome = Outcome(error=error, pause_seconds=pause)
        error_now = outcome.error
        # The response to an earlier try was lost, and that try deleted the object.
        is_gone = error_now is not None and error_now.code == "not_found"
        if may_be_done and is_gone and request.operation.method == "DELETE":
            return Answer()
        may_be_done = may_be_done or (error_now is not None and error_now.status != 429)
        if outcome.pause_seconds is not None and attempt < session.retries:
            yield Pause(outcome.pause_seconds)
            attempt += 1
            continue
        if error_now is not None:
            raise error_now
        return outcome.value
