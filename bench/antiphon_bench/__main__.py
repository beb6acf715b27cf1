"""`python -m antiphon_bench`."""

from __future__ import annotations

from antiphon_bench.cli import app

app()
