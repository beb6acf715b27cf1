"""A voice folder: config.json and the weights it vouches for. No torch here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from ttscommon.wire.errors import VoiceError
from ttscommon.wire.replicas import Voice

CONFIG_NAME: Final = "config.json"
FORMAT: Final = 1
BASE: Final = ".."
"""What `base` may say: all files, and what config.json leaves out, are of the folder above."""


@dataclass(frozen=True)
class VoiceFolder:
    """A voice whose files are there and have the hashes its config names.

    config: all of config.json; `talker`, `codec` and `sampling` hold the parts that the families
    read. sample_rate in Hz.
    """

    path: Path
    name: str
    family: str
    sample_rate: int
    frame_rate_hz: float
    codebooks: int
    voices: tuple[Voice, ...]
    talker_weights: Path
    vocoder_weights: Path
    config: Mapping[str, Any]


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked(folder: Path, entry: Mapping[str, str]) -> Path:
    path = folder / entry["file"]
    if path.parent != folder:
        raise VoiceError(f"{path} is outside its voice")
    try:
        found = sha256_of(path)
    except OSError as error:
        raise VoiceError(f"{path} cannot be read: {error.strerror}") from error
    if found != entry["sha256"]:
        raise VoiceError(f"{path} is damaged: its SHA-256 is {found}, not {entry['sha256']}")
    return path


def _told(folder: Path) -> dict[str, Any]:
    """A folder's config.json. Raises VoiceError."""
    try:
        found = json.loads((folder / CONFIG_NAME).read_text("utf-8"))
    except OSError as error:
        raise VoiceError(f"{folder} is no voice folder: {error.strerror}") from error
    except ValueError as error:
        raise VoiceError(f"{folder / CONFIG_NAME} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise VoiceError(f"{folder / CONFIG_NAME} is no JSON object")
    return found


def load_voice(path: str | Path) -> VoiceFolder:
    """Read a voice folder's config and check its weights' hashes. Raises VoiceError."""
    folder = Path(path)
    config = _told(folder)
    try:
        if config.get("base") == BASE:
            folder = folder.resolve().parent
            above = _told(folder)
            config = {**above, **config, "codec": {**above["codec"], **config["codec"]}}
        if config["format"] != FORMAT:
            raise VoiceError(f"{folder} has format {config['format']}, {FORMAT} is understood")
        return VoiceFolder(
            path=folder,
            name=config["name"],
            family=config["family"],
            sample_rate=int(config["sample_rate"]),
            frame_rate_hz=float(config["frame_rate_hz"]),
            codebooks=int(config["codebooks"]),
            voices=msgspec.convert(config["voices"], tuple[Voice, ...]),
            talker_weights=_checked(folder, config["weights"]["talker"]),
            vocoder_weights=_checked(folder, config["weights"]["vocoder"]),
            config=config,
        )
    except msgspec.ValidationError as error:
        raise VoiceError(f"{folder / CONFIG_NAME}: voices: {error}") from error
    except (KeyError, TypeError) as error:
        raise VoiceError(f"{folder / CONFIG_NAME} lacks {error}") from error
