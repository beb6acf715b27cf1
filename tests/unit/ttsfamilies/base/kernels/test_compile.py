"""Every kernel compiles for the devices that are served, although none is here."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("triton")

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[4]
PROGRAM: Final = HERE / "compile_kernels.py"


# Bytes that no register was spilled to: the library reduces large angles in an array.
OWN: Final = {"angles": 32}


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


def ran(*arguments: str, cache: Path | None = None) -> str:
    """What the program says. cache: where Triton keeps what it compiled."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    if cache is not None:
        environment["TRITON_CACHE_DIR"] = str(cache)
    found = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", [80, 90])
def test_every_kernel_compiles_and_spills_nothing(tmp_path: Path, target: int) -> None:
    cases = [line for line in ran("--list", str(target)).splitlines() if line]
    lines = ran(str(target), cache=tmp_path).splitlines()
    assert len(lines) == len(cases) > 0
    spilled = [line for line in lines if int(line.rpartition(" ")[2]) > OWN.get(line.split()[0], 0)]
    assert spilled == [], "registers are spilled"
