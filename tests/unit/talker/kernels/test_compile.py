"""Every kernel compiles for the devices that are served, although none is here."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("triton")

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[3]
PROGRAM: Final = HERE / "compile_kernels.py"
TARGETS: Final = (80, 90)


def kernels() -> set[str]:
    """The names of all kernels that are launched: those of a leading underscore are parts."""
    found = set()
    for package in ("libs", "services"):
        for path in (ROOT / package).rglob("*_triton.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and node.decorator_list:
                    found.add(node.name)
    return {name for name in found if not name.startswith("_")}


def test_every_kernel_is_among_those_compiled() -> None:
    tree = ast.parse(PROGRAM.read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {"sample_rows", "swiglu_rows"} <= kernels(), "one of each package that has any"
    assert kernels() <= used


def test_every_kernel_compiles_for_ampere_and_hopper(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    ran = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    for target in TARGETS:
        assert sum(f" sm_{target} " in line for line in lines) == len(lines) // len(TARGETS)
    assert [line for line in lines if not line.endswith(" 0")] == [], "registers are spilled"
