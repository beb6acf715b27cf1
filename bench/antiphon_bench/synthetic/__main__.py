"""`python -m antiphon_bench.synthetic`."""

from __future__ import annotations

import typer

from antiphon_bench.synthetic.command import checkpoint

if __name__ == "__main__":
    typer.run(checkpoint)
