"""Webhooks: only a message that Purser signed in the last five minutes is returned."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from purser import WebhookVerificationError, verify_webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"another secret of the endpoint").decode()
BODY = '{"id":"msg_1","type":"credits.granted","data":{"balances":[{"initial":0.10}],"ü":1}}'


def signed(secret: str = SECRET, body: str = BODY, age_seconds: int = 0) -> dict[str, str]:
    timestamp = str(int(time.time()) - age_seconds)
    key = base64.b64decode(secret.replace("whsec_", ""))
    digest = hmac.new(key, f"msg_1.{timestamp}.{body}".encode(), hashlib.sha256).digest()
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": timestamp,
        "Webhook-Signature": "v1a,nothing v1," + base64.b64encode(digest).decode(),
    }


def test_agrees_with_the_example_of_standard_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1614265330.0)
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert verify_webhook(headers, '{"test": 2432232314}', SECRET) == {"test": 2432232314}


@pytest.mark.parametrize("body", [BODY, BODY.encode()])
@pytest.mark.parametrize("secret", [SECRET, [OTHER, SECRET]])
def test_returns_a_message_that_was_signed(body: Any, secret: Any) -> None:
    message = verify_webhook(signed(), body, secret)
    assert message["type"] == "credits.granted"
    assert message["data"]["balances"][0]["initial"] == Decimal("0.10")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (lambda: signed(OTHER), BODY),
        (signed, BODY + " "),
        (lambda: signed(age_seconds=400), BODY),
        (lambda: signed(age_seconds=-400), BODY),
        (lambda: {**signed(), "Webhook-Timestamp": "x"}, BODY),
        (lambda: {**signed(), "Webhook-Signature": "v1,%%%"}, BODY),
        (dict, BODY),
    ],
)
def test_rejects_a_message_that_was_not(headers: Callable[[], dict[str, str]], body: str) -> None:
    # Signed here: other tests may take longer than the five minutes.
    sent = headers()
    with pytest.raises(WebhookVerificationError):
        verify_webhook(sent, body, SECRET)


def test_rejects_a_missing_secret_and_a_parsed_body() -> None:
    for secret in ("", "whsec_", None, [], "whsec_ü"):
        with pytest.raises(ValueError):
            verify_webhook(signed(), BODY, secret)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="received text or bytes"):
        verify_webhook(signed(), {"id": "msg_1"}, SECRET)  # type: ignore[arg-type]
