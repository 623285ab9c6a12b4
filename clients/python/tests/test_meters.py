"""Meters: every token of a provider's usage is in exactly one of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purser import (
    meters_of,
    meters_of_ai_sdk,
    meters_of_anthropic,
    meters_of_gemini,
    meters_of_openai_chat,
    meters_of_openai_responses,
)


def as_object(value: Any) -> Any:
    """Turns dictionaries into objects with attributes, like those of the providers' packages."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_object(inner) for name, inner in value.items()})
    return [as_object(each) for each in value] if isinstance(value, list) else value


CHAT = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0, "image_tokens": 40},
    "completion_tokens_details": {
        "reasoning_tokens": 192,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
SPOKEN = {
    "prompt_tokens": 120,
    "completion_tokens": 90,
    "total_tokens": 210,
    "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 30, "audio_tokens": 50},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 70},
}
RESPONSES = {
    "input_tokens": 2006,
    "input_tokens_details": {"cached_tokens": 1920, "cache_write_tokens": 6},
    "output_tokens": 300,
    "output_tokens_details": {"reasoning_tokens": 192},
    "total_tokens": 2306,
}
ANTHROPIC = {
    "input_tokens": 21,
    "cache_creation_input_tokens": 556,
    "cache_creation": {"ephemeral_5m_input_tokens": 456, "ephemeral_1h_input_tokens": 100},
    "cache_read_input_tokens": 1000,
    "output_tokens": 503,
    "output_tokens_details": {"thinking_tokens": 400},
    "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
    "service_tier": "standard",
}
ANTHROPIC_PLAIN = {
    "input_tokens": 10,
    "cache_creation": None,
    "cache_creation_input_tokens": None,
    "cache_read_input_tokens": None,
    "output_tokens": 5,
    "output_tokens_details": None,
}
AI_SDK = {
    "inputTokens": 2006,
    "inputTokenDetails": {"noCacheTokens": 80, "cacheReadTokens": 1920, "cacheWriteTokens": 6},
    "outputTokens": 300,
    "outputTokenDetails": {"textTokens": 108, "reasoningTokens": 192},
    "totalTokens": 2306,
    "raw": {"anything": 1},
}
AI_SDK_PROVIDER = {
    "inputTokens": {"total": 2006, "noCache": 80, "cacheRead": 1920, "cacheWrite": 6},
    "outputTokens": {"total": 300, "text": 108, "reasoning": 192},
}
GEMINI = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 30,
    "toolUsePromptTokenCount": 5,
    "totalTokenCount": 155,
    "promptTokensDetails": [
        {"modality": "TEXT", "tokenCount": 80},
        {"modality": "AUDIO", "tokenCount": 20},
    ],
    "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 8}],
}
GEMINI_PYTHON = {"prompt_token_count": 7, "candidates_token_count": 3, "total_token_count": 10}

KNOWN = [
    (CHAT, meters_of_openai_chat, {"input": 86, "cacheRead": 1920, "output": 300}),
    (
        SPOKEN,
        meters_of_openai_chat,
        {
            "input": 20,
            "cacheRead": 20,
            "cacheWrite": 30,
            "inputAudio": 50,
            "output": 20,
            "outputAudio": 70,
        },
    ),
    (
        RESPONSES,
        meters_of_openai_responses,
        {"input": 80, "cacheRead": 1920, "cacheWrite": 6, "output": 300},
    ),
    (
        ANTHROPIC,
        meters_of_anthropic,
        {"input": 21, "cacheRead": 1000, "cacheWrite": 456, "cacheWrite1h": 100, "output": 503},
    ),
    (ANTHROPIC_PLAIN, meters_of_anthropic, {"input": 10, "output": 5}),
    (
        AI_SDK,
        meters_of_ai_sdk,
        {"input": 80, "cacheRead": 1920, "cacheWrite": 6, "output": 300},
    ),
    (
        AI_SDK_PROVIDER,
        meters_of_ai_sdk,
        {"input": 80, "cacheRead": 1920, "cacheWrite": 6, "output": 300},
    ),
    (
        GEMINI,
        meters_of_gemini,
        {"input": 33, "cacheRead": 60, "inputAudio": 12, "output": 50},
    ),
    (GEMINI_PYTHON, meters_of_gemini, {"input": 7, "output": 3}),
]


@pytest.mark.parametrize(("usage", "by_name", "meters"), KNOWN)
def test_puts_every_token_into_one_meter(usage: Any, by_name: Any, meters: Any) -> None:
    for form in (usage, as_object(usage)):
        assert meters_of(form) == meters
        assert by_name(form) == meters


@pytest.mark.parametrize(("usage", "by_name", "meters"), KNOWN)
def test_counts_as_many_tokens_as_the_provider(usage: Any, by_name: Any, meters: Any) -> None:
    totals = {
        "total_tokens": None,
        "totalTokens": None,
        "totalTokenCount": None,
        "total_token_count": None,
    }
    for name in totals:
        if name in usage:
            assert sum(meters.values()) == usage[name]


def test_takes_the_lives_of_anthropics_cache_apart_only_when_it_reports_them() -> None:
    usage = {**ANTHROPIC, "cache_creation": None}
    assert meters_of(usage)["cacheWrite"] == 556
    assert "cacheWrite1h" not in meters_of(usage)


def test_adds_the_tokens_of_a_compaction_and_leaves_an_advisors_out() -> None:
    compaction = {**ANTHROPIC_PLAIN, "type": "compaction", "input_tokens": 1000}
    advisor = {**ANTHROPIC_PLAIN, "type": "advisor_message", "model": "another"}
    message = {**ANTHROPIC_PLAIN, "type": "message"}
    usage = {**ANTHROPIC_PLAIN, "iterations": [message, compaction, advisor]}
    assert meters_of(usage) == {"input": 1010, "output": 10}


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        ({**CHAT, "prompt_tokens": 1000, "total_tokens": 1300}, "prompt_tokens is 1000"),
        ({**CHAT, "total_tokens": 2500}, "total_tokens is 2500"),
        ({**CHAT, "completion_tokens": 100, "total_tokens": 2106}, "completion_tokens is 100"),
        ({**RESPONSES, "input_tokens": 7, "total_tokens": 307}, "input_tokens is 7"),
        ({**RESPONSES, "output_tokens": 100, "total_tokens": 2106}, "output_tokens is 100"),
        ({**ANTHROPIC, "cache_creation_input_tokens": 7}, "cache_creation_input_tokens is 7"),
        ({**ANTHROPIC, "output_tokens": 7}, "output_tokens is 7"),
        ({**ANTHROPIC, "input_tokens": None}, "no input_tokens"),
        ({**AI_SDK, "inputTokens": 7, "totalTokens": 307}, "inputTokens is 7"),
        ({**AI_SDK, "inputTokens": 3000, "totalTokens": 3300}, "noCacheTokens is 80"),
        ({**AI_SDK, "inputTokens": None}, "no inputTokens"),
        ({**GEMINI, "totalTokenCount": 125}, "totalTokenCount is 125"),
        ({**GEMINI, "promptTokenCount": 50, "totalTokenCount": 105}, "promptTokenCount is 50"),
        ({"inputTokens": 9, "outputTokens": 1, "cachedInputTokens": 4}, "Version 5"),
        ({**CHAT, "prompt_tokens": -1}, "below 0"),
        ({**CHAT, "prompt_tokens": 1.5}, "not a number of tokens"),
        ({**CHAT, "prompt_tokens": float("nan")}, "not a number of tokens"),
        ({**CHAT, "prompt_tokens": True}, "not a number of tokens"),
        ({**CHAT, "prompt_tokens": "9"}, "not a number of tokens"),
        ({**RESPONSES, "cache_read_input_tokens": 1}, "of OpenAI and of Anthropic"),
        ({"input_tokens": 9, "output_tokens": 1, "input_token_details": {}}, "known shape"),
        ({"tokens": 9}, "known shape"),
        (None, "known shape"),
    ],
)
def test_rejects_usage_that_does_not_add_up_or_that_it_does_not_know(
    usage: Any, message: str
) -> None:
    for form in (usage, as_object(usage)):
        with pytest.raises(ValueError, match=message):
            meters_of(form)
