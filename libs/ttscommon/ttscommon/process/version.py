"""The version of Antiphon that runs, for metrics and traces."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final


def _version() -> str:
    try:
        return version("antiphon-ttscommon")
    except PackageNotFoundError:
        return "source"  # run from a folder that was copied, not installed


VERSION: Final = _version()
