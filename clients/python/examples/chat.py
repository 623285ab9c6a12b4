"""A streaming chat with FastAPI and OpenAI, paid from the user's credits.

It reserves the highest price of an answer, and charges the actual price, even if the user closes
the page before the end. While `npm start` runs, start it with the printed key:

    pip install ./clients/python fastapi uvicorn openai
    PURSER_URL=http://localhost:8787 PURSER_KEY=sk_live_… uvicorn chat:app
    curl -N -X POST 'http://localhost:8000/chat?user_id=user_grace&prompt=Tell+me+of+ships.'
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import AsyncIterator

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI

from purser import AsyncPurser, InsufficientCredits, meters_of
from purser.types import UsageQuantities

MODEL = "gpt-5-mini"
OUTPUT_TOKENS_MAX = 2_000
#: Your prices, in cents a million tokens of each meter.
PRICES = {"input": 30, "cacheRead": 3, "cacheWrite": 30, "output": 250}

openai = AsyncOpenAI()
purser = AsyncPurser(url=os.environ["PURSER_URL"], key=os.environ["PURSER_KEY"])


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    # Waits for the commits of chats whose user has left.
    await purser.aclose()


app = FastAPI(lifespan=lifespan)


def quantities_of(meters: dict[str, int]) -> UsageQuantities:
    """The same usage in two units. The user's balances decide which of them pays."""
    millionths = sum(PRICES[meter] * tokens for meter, tokens in meters.items())
    return {"tokens": sum(meters.values()), "cents": Decimal(millionths) / 1_000_000}


def estimate(text: str) -> int:
    """An estimate until the provider has counted: four characters are about a token."""
    return len(text) // 4 + 1


async def answer(user_id: str, prompt: str) -> AsyncIterator[str]:
    """Yields an empty text when the credits are reserved, and then the words of the answer."""
    asked = estimate(prompt)
    most = quantities_of({"input": asked, "output": OUTPUT_TOKENS_MAX})
    async with purser.hold(
        user_id=user_id, event="chat.completion", model=MODEL, quantities=most
    ) as hold:
        yield ""
        # The provider bills the prompt from here on, even if the user leaves before the first word.
        hold.used(quantities_of({"input": asked}))
        stream = await openai.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": prompt}],
            max_completion_tokens=OUTPUT_TOKENS_MAX,
            stream=True,
            stream_options={"include_usage": True},
        )
        text = ""
        async for chunk in stream:
            if chunk.usage is not None:
                # The last chunk has the provider's own count, which is what it bills.
                hold.used(quantities_of(meters_of(chunk.usage)))
            for choice in chunk.choices:
                text += choice.delta.content or ""
                hold.used(quantities_of({"input": asked, "output": estimate(text)}))
                yield choice.delta.content or ""


@app.post("/chat")
async def chat(user_id: str, prompt: str) -> StreamingResponse:
    # In your product, take the user from your session, never from the request.
    words = answer(user_id, prompt)
    try:
        # Reserves before the response begins, so that a shortage is still a 402.
        await words.__anext__()
    except InsufficientCredits as error:
        raise HTTPException(402, "You have too few credits for this.") from error
    return StreamingResponse(words, media_type="text/plain")
