"""`python -m antiphon_bench.gpu SUBCOMMAND`."""

from antiphon_bench.gpu.cli import app

app()
