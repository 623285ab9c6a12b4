"""The client of Purser: prepaid credits, usage and a person's data."""

from ._client import AsyncPurser, Purser
from ._exchange import Answer, about
from ._hold import AsyncHold, Hold
from ._request import NOT_GIVEN, NotGiven
from .errors import InsufficientCredits, PurserError
from .meters import (
    meters_of,
    meters_of_ai_sdk,
    meters_of_anthropic,
    meters_of_gemini,
    meters_of_openai_chat,
    meters_of_openai_responses,
)
from .webhook import WebhookMessage, WebhookVerificationError, verify_webhook

__all__ = [
    "NOT_GIVEN",
    "Answer",
    "AsyncHold",
    "AsyncPurser",
    "Hold",
    "InsufficientCredits",
    "NotGiven",
    "Purser",
    "PurserError",
    "WebhookMessage",
    "WebhookVerificationError",
    "about",
    "meters_of",
    "meters_of_ai_sdk",
    "meters_of_anthropic",
    "meters_of_gemini",
    "meters_of_openai_chat",
    "meters_of_openai_responses",
    "verify_webhook",
]
__version__ = "0.3.0"
