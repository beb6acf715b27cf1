"""Which version of Antiphon runs: metrics and traces say so."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

VERSION: Final = version("antiphon-ttscommon")
