"""Verifies the webhooks of Purser."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from typing import Any, Dict, Mapping, Sequence, TypedDict, Union, cast

from ._json import loads

TOLERANCE_SECONDS = 300


class WebhookMessage(TypedDict):
    """A message from Purser. `type` names its kind, which decides what `data` has."""

    id: str
    type: str
    timestamp: str
    appId: str
    mode: str
    data: Dict[str, Any]


class WebhookVerificationError(Exception):
    """Purser did not send the message, or it is older than five minutes. Respond to it with 400."""


def _header(headers: Mapping[str, str], name: str) -> str:
    for found, value in headers.items():
        if found.lower() == name and isinstance(value, str):
            return value
    raise WebhookVerificationError(f"The header {name} is missing.")


def _bytes_of(text: str) -> Union[bytes, None]:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _key_of(secret: object) -> bytes:
    key = _bytes_of(re.sub("^whsec_", "", secret)) if isinstance(secret, str) else None
    if not key:
        raise ValueError(
            "The secret must be that of the endpoint, whsec_…. Check that its variable is set."
        )
    return key


def verify_webhook(
    headers: Mapping[str, str], body: Union[str, bytes], secret: Union[str, Sequence[str]]
) -> WebhookMessage:
    """Returns the message, if it was signed with the endpoint's secret in the last five minutes.

    Raises `WebhookVerificationError` otherwise. `body` is the received text or bytes, before any
    parsing. During a rotation give both secrets. A message may come more than once, with one `id`.
    """
    keys = [_key_of(one) for one in (secret if isinstance(secret, (list, tuple)) else [secret])]
    if not keys:
        raise ValueError("Give at least one secret of the endpoint, whsec_….")
    if not isinstance(body, (str, bytes)):
        raise TypeError("The body must be the received text or bytes: await request.body().")
    sent = body.encode() if isinstance(body, str) else body
    message_id = _header(headers, "webhook-id")
    timestamp = _header(headers, "webhook-timestamp")
    signatures = _header(headers, "webhook-signature").split(" ")
    if not re.fullmatch("[0-9]{1,12}", timestamp) or (
        abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS
    ):
        raise WebhookVerificationError("The message was not sent in the last five minutes.")
    signed = f"{message_id}.{timestamp}.".encode() + sent
    for key in keys:
        expected = hmac.new(key, signed, hashlib.sha256).digest()
        for signature in signatures:
            given = _bytes_of(signature[3:]) if signature.startswith("v1,") else None
            if given is not None and hmac.compare_digest(expected, given):
                return cast(WebhookMessage, loads(sent))
    raise WebhookVerificationError("No signature of the message matches the secret.")
