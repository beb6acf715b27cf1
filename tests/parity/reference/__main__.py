"""Write goldens: python -m tests.parity.reference CHECKPOINTS GOLDENS [FAMILY ...].

Runs in the references' own environment. A family is a module here with `write`, and its line.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

FAMILIES: Final = ("qwen3_tts", "orpheus", "snac", "kokoro")


def main() -> None:
    """All families, or those that are named."""
    checkpoints, folder = Path(sys.argv[1]), Path(sys.argv[2])
    for family in sys.argv[3:] or FAMILIES:
        if family not in FAMILIES:
            raise SystemExit(f"there are no goldens of {family!r}; known: {', '.join(FAMILIES)}")
        import_module(f"tests.parity.reference.{family}").write(checkpoints, folder)
    total = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
