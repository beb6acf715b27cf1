"""Low-rank adapters of a model, as requests and workers name them."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

# The field of a request.
ADAPTER: Final = "adapter"

AdapterName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class Adapter(msgspec.Struct, frozen=True):
    """One that a talker has in its folder. digest: SHA-256 of its content. rank: its highest."""

    name: str
    digest: str
    rank: int = 0


class AdapterRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one that a request is spoken with. Every talker of the request uses the same content.

    digest: SHA-256 of it. stored: its name in the object store; empty for one of talkers' folders.
    """

    name: AdapterName
    digest: Digest
    stored: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{16}-[0-9a-f]{64}-[0-9a-f]{16})?$")] = (
        ""
    )
