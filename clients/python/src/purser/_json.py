"""JSON that keeps every digit: numbers are read as `int` and `Decimal`, and sent as they are."""

from __future__ import annotations

import json
import math
from datetime import datetime
from decimal import Decimal
from typing import Any, Mapping


def time_text(operation: str, path: str, value: datetime) -> str:
    """Returns the time in RFC 3339. Raises `ValueError` if it has no time zone."""
    if value.utcoffset() is None:
        raise ValueError(
            f"{operation}: {path} has no time zone. Send datetime.now(timezone.utc), for example."
        )
    return value.isoformat(timespec="milliseconds")


def number_text(operation: str, path: str, value: float | Decimal) -> str:
    """Returns the number with all its digits. Raises `ValueError` if it is not finite."""
    is_finite = value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)
    if not is_finite:
        raise ValueError(f"{operation}: {path} is {value}. Send a finite number.")
    # The numbers of other libraries may be subclasses of float that print themselves otherwise.
    return str(value) if isinstance(value, Decimal) else float.__repr__(value)


def dumps(operation: str, value: object, path: str = "") -> str:
    """Returns the value as JSON. Raises `ValueError` or `TypeError` for what JSON cannot carry."""
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, (float, Decimal)):
        return number_text(operation, path, value)
    if isinstance(value, datetime):
        return json.dumps(time_text(operation, path, value))
    if isinstance(value, Mapping):
        fields = []
        for name, inner in value.items():
            if not isinstance(name, str):
                raise TypeError(f"{operation}: {path} has a key that is not a string.")
            inner_path = f"{path}.{name}" if path else name
            fields.append(f"{json.dumps(name)}:{dumps(operation, inner, inner_path)}")
        return "{" + ",".join(fields) + "}"
    if isinstance(value, (list, tuple)):
        each = (dumps(operation, inner, f"{path}[{at}]") for at, inner in enumerate(value))
        return "[" + ",".join(each) + "]"
    kind = type(value).__name__
    raise TypeError(f"{operation}: {path} is of type {kind}, which JSON cannot carry.")


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON.")


def loads(text: str | bytes) -> Any:
    """Parses JSON. Whole numbers are `int`, others `Decimal`. Raises `ValueError`."""
    return json.loads(text, parse_float=Decimal, parse_constant=_reject_constant)
