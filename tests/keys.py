"""A file of keys for those who test what belongs to whom."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

TWO: Final = MappingProxyType({"alice": "", "bob": ""})


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def keys_file(folder: Path, keys: Mapping[str, str] = TWO) -> Path:
    """Every one's key is the name; what each may do, as lines of TOML."""
    path = folder / "keys.toml"
    tables = (f'[keys.{name}]\nsha256 = "{hashed(name)}"\n{may}' for name, may in keys.items())
    path.write_text("\n".join(tables))
    return path
