"""Parts of a request that models read alike."""

from __future__ import annotations

from typing import TypeVar

from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece
from ttscommon.wire.rows import FloatRows

N = TypeVar("N", int, float)


def chosen(asked: N | None, default: N) -> N:
    """What a request asks for, or else the checkpoint's own."""
    return default if asked is None else asked


def plain_text(piece: Piece) -> str:
    """A piece as a model is shown it that reads letters alone."""
    if isinstance(piece, Boundary | Pause | FloatRows):
        return " "
    return piece.read if isinstance(piece, Phones) else piece.text
