"""Logged silence: frames that say nothing, and that a vocoder renders as zeros.

A chunk of codes says which of its frames these are, where a model has no silence of its own. What
else it holds of such a frame means nothing.
"""

from __future__ import annotations

from typing import Final

from ttscommon.wire.fields import Array, Arrays, Field, rows

SILENT: Final = "silent"
FLAG: Final = Field((), "u1", 2)


def silent(arrays: Arrays) -> Array:
    """[frames] u1, 1 where a frame is silence; raises MalformedMessage.

    A chunk without flags has none: its talker is of another family, or of an older version.
    """
    if SILENT not in arrays:
        return FLAG.zeros(rows(arrays))
    return FLAG.checked(SILENT, arrays[SILENT])
