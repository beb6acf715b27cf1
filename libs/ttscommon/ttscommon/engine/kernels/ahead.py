"""Compile all kernels for processors ahead of their first use.

    python -m ttscommon.engine.kernels.ahead

Setups and images run it, so that no process compiles when it starts. Kernels are compiled when
their module is imported, and such a module's name ends in `_numba`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("ttscommon", "ttsfamilies")


def modules() -> Iterator[str]:
    """Names of all modules with such kernels in what is installed of our packages."""
    for package in _PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        folder = Path(spec.origin).parent
        for path in sorted(folder.rglob("*_numba.py")):
            yield ".".join((package, *path.relative_to(folder).with_suffix("").parts))


if __name__ == "__main__":
    for name in modules():
        import_module(name)
