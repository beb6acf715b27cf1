"""A file of keys for those who test what belongs to whom."""

import hashlib
from pathlib import Path
from typing import Final

NAMES: Final = ("alice", "bob")


def keys_file(folder: Path, limits: str = "") -> Path:
    """Every one's key is the name; `limits`: what each may do, as lines of TOML."""
    path = folder / "keys.toml"
    path.write_text(
        "\n".join(
            f'[keys.{name}]\nsha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\n{limits}'
            for name in NAMES
        )
    )
    return path
