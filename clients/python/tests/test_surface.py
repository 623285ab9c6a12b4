"""The surface: both clients have the same methods, and each operation of the API has one."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import purser
from purser._operations import OPERATIONS, AsyncOperations, Operations
from purser._request import request_of

ROOT = Path(__file__).parents[1]


def methods_of(kind: Any) -> dict[str, str]:
    """The arguments and the answer of each method, without what differs between the two."""
    found = inspect.getmembers(kind, inspect.isfunction)
    signatures = {
        name: re.sub(r"Async(?=Iterator|Hold)", "", str(inspect.signature(method)))
        for name, method in found
        if not name.startswith("_")
    }
    return signatures


def test_both_clients_have_the_same_methods() -> None:
    assert methods_of(Operations) == methods_of(AsyncOperations)
    assert set(OPERATIONS) <= set(methods_of(Operations))


def test_asynchronous_methods_await() -> None:
    for name in OPERATIONS:
        assert inspect.iscoroutinefunction(getattr(AsyncOperations, name)), name
        assert not inspect.iscoroutinefunction(getattr(Operations, name)), name


def test_is_typed_and_has_the_version_of_its_package() -> None:
    assert (ROOT / "src/purser/py.typed").exists()
    manifest = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert (
        json.loads((ROOT / "../../package.json").read_text(encoding="utf-8"))["version"]
        == purser.__version__
    )
    assert f'version = "{purser.__version__}"' in manifest
    assert re.search(r'^dependencies = \["httpx[^",]*"\]$', manifest, re.M)


def test_shows_neither_the_key_nor_a_user_where_it_is_printed() -> None:
    client = purser.Purser(url="https://purser.example", key="sk_live_hidden")
    steps = client._steps("list_balances", {"userId": "ada"})
    sent = next(steps)
    request = request_of("list_balances", OPERATIONS["list_balances"], {"userId": "ada"})
    for shown in map(repr, (client, client._session, sent, request)):
        assert "hidden" not in shown
        assert "ada" not in shown


def test_exports_all_that_it_names() -> None:
    for name in purser.__all__:
        assert hasattr(purser, name), name
