"""The one error of a broker that does not keep what a deployment needs."""

from __future__ import annotations

from ttscommon.wire.errors import AntiphonError


class BusUnprepared(AntiphonError):
    """The broker does not keep what this deployment needs; the text says what to do."""

    code = "bus_unavailable"
