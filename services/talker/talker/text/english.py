"""English for models that bring no lexicon of their own: the default voice's."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from talker.text.frontend import EnglishFrontend
from talker.text.lexicon import FILE_NAME, LexiconError
from ttscommon.engine.checkpoint import CheckpointError

_DEFAULT: Final = Path("voices/vesper")
_ROOT: Final = Path(__file__).resolve().parents[4]


def english(folder: Path) -> EnglishFrontend:
    """With the lexicon in a checkpoint's folder, or else the default voice's.

    Raises CheckpointError where there is neither.
    """
    places = (folder, _DEFAULT, _ROOT / _DEFAULT)
    for place in places:
        if (place / FILE_NAME).is_file():
            return _loaded(place.resolve())
    raise CheckpointError(
        f"{folder} is read with the default voice's lexicon: copy {_DEFAULT / FILE_NAME} there"
    )


@lru_cache
def _loaded(folder: Path) -> EnglishFrontend:
    try:
        return EnglishFrontend.load(folder)
    except LexiconError as error:
        raise CheckpointError(str(error)) from error
