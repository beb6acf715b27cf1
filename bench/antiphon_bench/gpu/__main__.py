"""`python -m antiphon_bench.gpu SUBCOMMAND`."""

from antiphon_bench.gpu import sequence
from antiphon_bench.gpu.cli import app

# Processes that the loads spawn import this module too.
if __name__ == "__main__":
    sequence.count_start()
    app()
