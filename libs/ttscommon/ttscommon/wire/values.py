"""Values that single fields of a message may hold, checked before anything is allocated."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

VERSION: Final = 1
MAX_TEXT_CHARS: Final = 20_000
MAX_MARK_BYTES: Final = 4096

Identifier: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]
