"""Kernels that a setup did not compile, compiled at the first start."""

from __future__ import annotations

import subprocess
import sys

from rich.console import Console

from antiphon.stack.local import Engine
from ttscommon.engine.kernels import ahead


def compile_missing(engine: Engine, console: Console) -> None:
    """In front of the services: each of them would do it in silence, against its time to start."""
    if engine != "torch" or ahead.compiled():
        return
    console.print("compiling kernels for this machine, once: about a minute", style="dim")
    # Where it fails, the services compile, and say why they cannot.
    subprocess.run([sys.executable, "-m", ahead.__name__], check=False)
