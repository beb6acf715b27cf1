"""What a text is made of once it is parsed: the typed pieces that a model's frontend is fed."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Characters to speak. A word may go on in the next piece of text."""

    text: str


class Boundary(msgspec.Struct, frozen=True, tag="boundary"):
    """A sentence ends here, whatever its last character is: what came so far may be spoken."""


class Phones(msgspec.Struct, frozen=True, tag="phones"):
    """A word as written, and its pronunciation: phones of the model, separated by spaces."""

    text: str
    phones: str


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Silence of this length between what came before and what follows."""

    seconds: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)]


Piece: TypeAlias = Text | Boundary | Phones | Pause
