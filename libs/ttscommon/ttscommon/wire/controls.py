"""Messages to the stages about a request that is in work; no log holds them."""

from __future__ import annotations

import msgspec

from ttscommon.wire.values import VERSION, Identifier


class Cancel(msgspec.Struct, frozen=True, tag="cancel", tag_field="t"):
    """The listener is gone or has heard enough."""

    request_id: Identifier
    reason: str = ""
    v: int = VERSION


class Playback(msgspec.Struct, frozen=True, tag="playback", tag_field="t"):
    """What the listener is doing: how far into the request's audio playback is now.

    Relative to the moment of arrival, so that no two machines' clocks are ever compared.
    """

    request_id: Identifier
    position_s: float
    v: int = VERSION


class Listening(msgspec.Struct, frozen=True, tag="listening", tag_field="t"):
    """The request is heard through the gateway of this worker id."""

    request_id: Identifier
    gateway: Identifier
    v: int = VERSION
