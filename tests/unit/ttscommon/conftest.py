"""What every test here needs: an environment without settings."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the caller's own, ANTIPHON_SCHEDULES say, are unknown to a service."""
    for name in [name for name in os.environ if name.startswith("ANTIPHON_")]:
        monkeypatch.delenv(name)
