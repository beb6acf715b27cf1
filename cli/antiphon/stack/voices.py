"""Voices that are installed as packages, each found by its entry point."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

# A package names here what a voice is called and the module whose folder holds its files.
GROUP: Final = "antiphon.voices"
DEFAULT: Final = "vesper"
PACKAGE: Final = f"antiphon-voice-{DEFAULT}"
_CLONE: Final = Path(__file__).resolve().parents[3] / "voices"


class VoiceMissing(Exception):
    """There is no default voice here; the text is for the person who asked for one."""


def installed() -> dict[str, Path]:
    """The folders of all installed voices, by name."""
    return dict(sorted(_found()))


def _found() -> Iterator[tuple[str, Path]]:
    for point in entry_points(group=GROUP):
        if folder := _folder(point):
            yield point.name, folder


def _folder(point: EntryPoint) -> Path | None:
    """Where the module is, which is not imported; None for a package whose files are gone."""
    try:
        spec = find_spec(point.module)
    except ModuleNotFoundError:
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def default_voice() -> Path:
    """The folder of the default voice: the package's, or that of the clone that runs.

    Raises VoiceMissing.
    """
    folder = installed().get(DEFAULT, _CLONE / DEFAULT)
    if not any(folder.glob("*.safetensors")):
        raise VoiceMissing(f"the default voice is not installed: `pip install {PACKAGE}`")
    return folder
