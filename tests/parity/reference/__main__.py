"""Write all goldens: python -m tests.parity.reference CHECKPOINTS GOLDENS."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.parity.reference import codec, keys, library, talker


def main() -> None:
    """Run every part."""
    checkpoints, folder = Path(sys.argv[1]), Path(sys.argv[2])
    arrays = {
        "talker": talker.goldens(checkpoints),
        "encoders": talker.encoders(checkpoints),
        "codec": codec.goldens(checkpoints),
        "library": library.goldens(),
    }
    for name, content in arrays.items():
        np.savez_compressed(folder / f"{name}.npz", **content)
    _write(folder / "tokens.json", talker.tokens(checkpoints))
    _write(folder / "keys.json", keys.goldens(keys.read(checkpoints / "configs")))
    total = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {total / 1e6:.2f} MB")


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
