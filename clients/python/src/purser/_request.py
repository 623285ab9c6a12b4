"""Builds the request of an operation, without sending it."""

from __future__ import annotations

import enum
import re
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Mapping, Sequence
from urllib.parse import quote, urlencode

from ._json import dumps, number_text, time_text


class NotGiven(enum.Enum):
    """The type of an argument that was not given. `None` is something else: it is sent as null."""

    NOT_GIVEN = "NOT_GIVEN"

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN = NotGiven.NOT_GIVEN


@dataclass(frozen=True)
class Operation:
    """An operation of openapi.json."""

    method: str
    path: str
    #: The accepted kinds of keys: `sk`, `pk`, `rk` and `admin`. Empty if it needs no key.
    keys: str
    #: The field of the response that is a page's list.
    list: str | None = None
    takes_user_token: bool = False
    #: Whether a repeated POST has no further effect, with the same `id_field` if it has one.
    is_idempotent: bool = False
    #: The field that makes it idempotent. The client makes the id if it is absent.
    id_field: str | None = None
    id_prefix: str = ""


@dataclass(frozen=True)
class Request:
    """A request that is built once for a call, so that every retry has the same ids."""

    name: str
    operation: Operation
    path: str = field(repr=False)
    body: bytes | None = field(repr=False)

    @property
    def is_repeatable(self) -> bool:
        """Whether a repeated request has no further effect."""
        return self.operation.method in ("GET", "PUT", "DELETE") or self.operation.is_idempotent


def made_id(prefix: str = "") -> str:
    return prefix + str(uuid.uuid4())


def _with_id(operation: Operation, fields: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in fields.items() if value is not NOT_GIVEN}
    if operation.id_field is not None and operation.id_field not in given:
        given[operation.id_field] = made_id(operation.id_prefix)
    return given


def _query_text(operation: str, name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return time_text(operation, name, value)
    if isinstance(value, (float, Decimal)):
        return number_text(operation, name, value)
    if isinstance(value, (str, int)):
        return str(value)
    raise TypeError(f"{operation}: {name} is of type {type(value).__name__}.")


def request_of(
    name: str, operation: Operation, fields: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> Request:
    """Returns the request. Raises `ValueError` or `TypeError` for fields that cannot be sent."""
    if not isinstance(fields, Mapping):
        body = dumps(name, [_with_id(operation, each) for each in fields])
        return Request(name, operation, operation.path, body.encode())
    remaining = _with_id(operation, fields)

    def segment(match: re.Match[str]) -> str:
        value = remaining.pop(match[1], None)
        # A URL would treat one or two dots as a step in its path.
        if not isinstance(value, str) or value in ("", ".", ".."):
            raise ValueError(f"{name} needs {match[1]}.")
        return quote(value, safe="")

    path = re.sub(r"\{(\w+)\}", segment, operation.path)
    if operation.method in ("GET", "DELETE"):
        query = urlencode(
            {field: _query_text(name, field, value) for field, value in remaining.items()}
        )
        return Request(name, operation, f"{path}?{query}" if query else path, None)
    return Request(name, operation, path, dumps(name, remaining).encode())
