"""The report file: parts of one voice's evaluation, each with how many texts it was measured on."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from ttscommon.engine.voice import CONFIG_NAME
from ttsfamilies.base.text.lexicon import FILE_NAME

REPORT_NAME: Final = "evaluation.json"
_GAINS: Final = ("gain_db", "short_db")


def voice_key(folder: Path) -> str:
    """A hash of all that a voice speaks from; its config holds the hashes of the weights.

    Without the gains of its voices: they are applied behind the codec, whose samples are measured.
    """
    config = json.loads((folder / CONFIG_NAME).read_text("utf-8"))
    for voice in config.get("voices", ()):
        for gain in _GAINS:
            voice.pop(gain, None)
    spoken_from = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    lexicon = (folder / FILE_NAME).read_bytes()
    return hashlib.sha256(spoken_from.encode() + lexicon).hexdigest()


class Report:
    """Parts of the evaluation of one voice folder, kept in a JSON file; another voice's go.

    `notes` in the file are paragraphs for the card, written by hand. Raises OSError, ValueError.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path, key = path, voice_key(folder)
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        empty = {"voice": key, "notes": [], "texts": {}, "parts": {}}
        self._content: dict[str, Any] = found if found.get("voice") == key else empty

    @property
    def parts(self) -> dict[str, Any]:
        """What was measured, by part."""
        return dict(self._content["parts"])

    @property
    def notes(self) -> list[str]:
        """What the card says about how these weights came to be."""
        return list(self._content["notes"])

    def has(self, part: str, texts: int) -> bool:
        """Whether a part was measured on at least so many texts."""
        return int(self._content["texts"].get(part, -1)) >= texts

    def put(self, part: str, texts: int, value: Any) -> None:
        """Add or replace a part, and write the file."""
        self._content["texts"][part] = texts
        self._content["parts"][part] = value
        self._path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(self._content, indent=2, ensure_ascii=False)
        self._path.write_text(content + "\n", "utf-8")
