"""Write goldens: python -m tests.parity.reference NAME CHECKPOINTS GOLDENS.

Runs in a reference's own environment. NAME is a module here with `write(checkpoints, goldens)`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Run the reference that is named."""
    name, checkpoints, goldens = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    reference = import_module(f"tests.parity.reference.{name}")
    import torch  # as the reference has it imported

    torch.set_num_threads(1)
    reference.write(checkpoints, goldens)
    total = sum(path.stat().st_size for path in goldens.iterdir())
    print(f"{goldens}: {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
