"""Turns the usage that a provider reported into meters, with every token in exactly one of them.

`meters_of(usage)` knows the provider by the shape of its usage. Each provider also has a function
by name. All take a dictionary or an object with attributes, such as the models of `openai` and
`anthropic`, and return for example `{"input": 900, "cacheRead": 100, "output": 50}`.

The meters are `input`, `cacheRead`, `cacheWrite` (written for five minutes, or for the provider's
only lifetime), `cacheWrite1h`, `output` (with reasoning), `inputAudio` and `outputAudio`. `input`
and `output` are always there; the others are there when they are not 0. Usage that does not add up
raises `ValueError`, because charging it would be a guess.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

__all__ = [
    "Meters",
    "meters_of",
    "meters_of_ai_sdk",
    "meters_of_anthropic",
    "meters_of_gemini",
    "meters_of_openai_chat",
    "meters_of_openai_responses",
]

Meters = Dict[str, int]


def _field(usage: Any, name: str) -> Any:
    """Returns a field of a dictionary or an object; None if it is absent."""
    return usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)


def _has(usage: Any, name: str) -> bool:
    return name in usage if isinstance(usage, Mapping) else hasattr(usage, name)


def _count(usage: Any, name: str) -> int:
    """Returns a number of tokens; 0 if it is absent or null."""
    value = _field(usage, name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        raise ValueError(f"{name} is {value!r}, not a number of tokens.")
    if value < 0:
        raise ValueError(f"{name} is {value!r}, below 0.")
    return int(value)


def _whole(usage: Any, name: str) -> int:
    """Returns a number of tokens that the provider always reports."""
    if _field(usage, name) is None:
        raise ValueError(
            f"The usage has no {name}. Of a stream, take the usage of the final message."
        )
    return _count(usage, name)


def _rest(whole: int, parts: Mapping[str, int], name: str) -> int:
    """Returns what is left of a whole. Raises `ValueError` when its parts are above it."""
    rest = whole - sum(parts.values())
    if rest < 0:
        listed = ", ".join(f"{part} {count}" for part, count in parts.items() if count > 0)
        raise ValueError(f"{name} is {whole}, but its parts are more: {listed}.")
    return rest


def _assert_total(usage: Any, name: str, counted: int) -> None:
    """Raises `ValueError` if the reported total is not the sum, so that no token is lost."""
    if _field(usage, name) is not None and _count(usage, name) != counted:
        raise ValueError(f"{name} is {_count(usage, name)}, but its parts are {counted} in all.")


def _meters(input_tokens: int, output_tokens: int, **others: int) -> Meters:
    found = {name: count for name, count in others.items() if count > 0}
    return {"input": input_tokens, "output": output_tokens, **found}


def meters_of_openai_chat(usage: Any) -> Meters:
    """Returns the meters of OpenAI's Chat Completions (`CompletionUsage`).

    `prompt_tokens` contains the cached, written and audio tokens of `prompt_tokens_details`;
    `completion_tokens` contains reasoning and audio. Tokens of images stay in `input`.
    https://developers.openai.com/api/docs/guides/prompt-caching, and `CompletionUsage` of the
    package `openai` (3.22): `cache_write_tokens` are "prompt tokens written to cache".
    """
    prompt = _field(usage, "prompt_tokens_details")
    completion = _field(usage, "completion_tokens_details")
    parts = {
        "cacheRead": _count(prompt, "cached_tokens"),
        "cacheWrite": _count(prompt, "cache_write_tokens"),
        "inputAudio": _count(prompt, "audio_tokens"),
    }
    all_input = _whole(usage, "prompt_tokens")
    all_output = _whole(usage, "completion_tokens")
    spoken = {"outputAudio": _count(completion, "audio_tokens")}
    reasoning = {"reasoning_tokens": _count(completion, "reasoning_tokens")}
    _rest(all_output, {**spoken, **reasoning}, "completion_tokens")
    _assert_total(usage, "total_tokens", all_input + all_output)
    return _meters(
        _rest(all_input, parts, "prompt_tokens"),
        _rest(all_output, spoken, "completion_tokens"),
        **parts,
        **spoken,
    )


def meters_of_openai_responses(usage: Any) -> Meters:
    """Returns the meters of OpenAI's Responses (`ResponseUsage`).

    `input_tokens` contains the cached and written tokens of `input_tokens_details`; `output_tokens`
    contains reasoning. https://developers.openai.com/api/docs/guides/prompt-caching, and
    `ResponseUsage` of the package `openai` (3.22).
    """
    details = _field(usage, "input_tokens_details")
    parts = {
        "cacheRead": _count(details, "cached_tokens"),
        "cacheWrite": _count(details, "cache_write_tokens"),
    }
    all_input = _whole(usage, "input_tokens")
    output = _whole(usage, "output_tokens")
    reasoning = _count(_field(usage, "output_tokens_details"), "reasoning_tokens")
    _rest(output, {"reasoning_tokens": reasoning}, "output_tokens")
    _assert_total(usage, "total_tokens", all_input + output)
    return _meters(_rest(all_input, parts, "input_tokens"), output, **parts)


def meters_of_anthropic(usage: Any) -> Meters:
    """Returns the meters of Anthropic's Messages (`Usage`).

    `input_tokens` does not contain the tokens of the cache, which are beside it:
    `cache_read_input_tokens`, and `cache_creation_input_tokens`, which `cache_creation` divides
    into five minutes and an hour. Without that division all were written for five minutes, the
    default. `output_tokens` contains thinking. Iterations of the type `compaction` are not in the
    other fields, so they are added; an advisor's are another model's, and are not.
    https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching, and `Usage` and
    `BetaUsage` of the package `anthropic` (1.13).
    """
    written = _count(usage, "cache_creation_input_tokens")
    lives = _field(usage, "cache_creation")
    for_an_hour = _count(lives, "ephemeral_1h_input_tokens")
    if lives is not None:
        both = _count(lives, "ephemeral_5m_input_tokens") + for_an_hour
        if _field(usage, "cache_creation_input_tokens") is not None and both != written:
            raise ValueError(
                f"cache_creation_input_tokens is {written}, but its parts are {both} in all."
            )
        written = both
    output = _whole(usage, "output_tokens")
    thinking = _count(_field(usage, "output_tokens_details"), "thinking_tokens")
    _rest(output, {"thinking_tokens": thinking}, "output_tokens")
    meters = _meters(
        _whole(usage, "input_tokens"),
        output,
        cacheRead=_count(usage, "cache_read_input_tokens"),
        cacheWrite=written - for_an_hour,
        cacheWrite1h=for_an_hour,
    )
    for iteration in _field(usage, "iterations") or []:
        if _field(iteration, "type") == "compaction":
            for name, count in meters_of_anthropic(iteration).items():
                meters[name] = meters.get(name, 0) + count
    return meters


def meters_of_ai_sdk(usage: Any) -> Meters:
    """Returns the meters of the AI SDK, version 6 or 7: of a result, a step, or a provider.

    `inputTokens` contains the tokens of the cache, which `inputTokenDetails` tells apart;
    `outputTokens` contains reasoning. A provider's usage has the same in `inputTokens.total`,
    `cacheRead` and `cacheWrite`. The SDK does not tell the lives of a cache apart: for Anthropic's
    hour give `meters_of_anthropic` the usage in `raw`.
    https://ai-sdk.dev/docs/reference/ai-sdk-core/generate-text, and `LanguageModelUsage` of the
    packages `ai` (6.0 and 7.0) and `@ai-sdk/provider`.
    """
    inner = _field(usage, "inputTokens")
    if inner is not None and not isinstance(inner, (int, float)):
        inputs, outputs = inner, _field(usage, "outputTokens")
        names = ("noCache", "cacheRead", "cacheWrite", "reasoning")
        all_input, output = _whole(inputs, "total"), _whole(outputs, "total")
    else:
        inputs, outputs = _field(usage, "inputTokenDetails"), _field(usage, "outputTokenDetails")
        names = ("noCacheTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
        all_input, output = _whole(usage, "inputTokens"), _whole(usage, "outputTokens")
        if inputs is None and _count(usage, "cachedInputTokens") > 0:
            raise ValueError(
                "Version 5 of the AI SDK does not tell whether inputTokens contains the tokens of "
                "the cache. Give the provider's own usage."
            )
        _assert_total(usage, "totalTokens", all_input + output)
    no_cache, cache_read, cache_write, reasoning = names
    parts = {"cacheRead": _count(inputs, cache_read), "cacheWrite": _count(inputs, cache_write)}
    rest = _rest(all_input, parts, "inputTokens")
    _assert_total(inputs, no_cache, rest)
    _rest(output, {reasoning: _count(outputs, reasoning)}, "outputTokens")
    return _meters(rest, output, **parts)


def _audio(details: Any, snake: bool) -> int:
    """Returns the tokens of audio in a list of Gemini's tokens by modality."""
    total = 0
    for each in details or []:
        modality = _field(each, "modality")
        if getattr(modality, "value", modality) == "AUDIO":
            total += _count(each, "token_count" if snake else "tokenCount")
    return total


def meters_of_gemini(usage: Any) -> Meters:
    """Returns the meters of Gemini (`usageMetadata`), as JSON or from the package `google-genai`.

    `promptTokenCount` contains `cachedContentTokenCount`. `candidatesTokenCount` does not contain
    `thoughtsTokenCount`, and neither contains `toolUsePromptTokenCount`, which is input. Tokens of
    audio in the cache count as `cacheRead`.
    https://ai.google.dev/api/generate-content#UsageMetadata
    """
    snake = _has(usage, "prompt_token_count")

    def name(camel: str) -> str:
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in camel) if snake else camel

    cached = _count(usage, name("cachedContentTokenCount"))
    cached_audio = _audio(_field(usage, name("cacheTokensDetails")), snake)
    heard = _audio(_field(usage, name("promptTokensDetails")), snake)
    parts = {"cacheRead": cached, "inputAudio": _rest(heard, {"cached": cached_audio}, "AUDIO")}
    candidates = _count(usage, name("candidatesTokenCount"))
    thoughts = _count(usage, name("thoughtsTokenCount"))
    tools = _count(usage, name("toolUsePromptTokenCount"))
    prompt = _whole(usage, name("promptTokenCount"))
    spoken = {"outputAudio": _audio(_field(usage, name("candidatesTokensDetails")), snake)}
    _assert_total(usage, name("totalTokenCount"), prompt + candidates + thoughts + tools)
    return _meters(
        _rest(prompt, parts, name("promptTokenCount")) + tools,
        _rest(candidates, spoken, name("candidatesTokenCount")) + thoughts,
        **parts,
        **spoken,
    )


_CACHE_OF_ANTHROPIC = ("cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation")


def meters_of(usage: Any) -> Meters:
    """Returns the meters of the usage that OpenAI, Anthropic, Gemini or the AI SDK reported.

    Raises `ValueError` for usage of another shape, and for usage that does not add up.
    """
    is_openai = _field(usage, "input_tokens_details") is not None
    is_anthropic = any(_has(usage, name) for name in _CACHE_OF_ANTHROPIC)
    if is_openai and is_anthropic:
        raise ValueError("The usage has fields of OpenAI and of Anthropic. Call one by name.")
    if _has(usage, "prompt_tokens"):
        return meters_of_openai_chat(usage)
    if _has(usage, "promptTokenCount") or _has(usage, "prompt_token_count"):
        return meters_of_gemini(usage)
    if _has(usage, "inputTokens"):
        return meters_of_ai_sdk(usage)
    # Usage of audio and images has `input_token_details`, whose tokens have other prices.
    if _has(usage, "input_tokens") and _field(usage, "input_token_details") is None:
        # With neither's details both mean the same.
        return meters_of_anthropic(usage) if is_anthropic else meters_of_openai_responses(usage)
    raise ValueError(
        "The usage is not of a known shape. Give the usage of the response: response.usage."
    )
