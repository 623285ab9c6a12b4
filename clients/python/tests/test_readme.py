"""The README's examples run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret of the receiver in the examples."""
    monkeypatch.setenv("PURSER_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


def test_the_first_example_runs_as_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[0], "README.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert re.search(r"1200 tokens", printed)


def test_all_examples_run_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    world: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), world)
    assert "812" in capsys.readouterr().out
