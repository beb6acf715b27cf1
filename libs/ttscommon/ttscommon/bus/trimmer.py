"""Extents of the requests' streams, and the removal of all their oldest records at once.

One purge by sequence takes away what hundreds of requests left, for the price of one request's
purge by subject.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from ttscommon.bus.faults import Unreachable
from ttscommon.bus.link import Link
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import LOGS, TOMBSTONES

# By name: the part of it before the deployment's own.
_STREAMS: Final[Mapping[str, str]] = MappingProxyType(
    {**{log.stream: "" for log in LOGS}, TOMBSTONES: "KV_"}
)
TRIMMED: Final = tuple(_STREAMS)


@dataclass(frozen=True)
class Extent:
    """Sequences of a stream: `first` of its oldest record, `last` of the newest there ever was; if
    it is empty, `first` of the next one.

    created: when the stream was made; another one counts anew.
    """

    first: int
    last: int
    created: datetime | None = None

    def follows(self, earlier: Extent) -> bool:
        """False if records were lost, so that their sequences may be given again."""
        return self.created == earlier.created and self.last >= earlier.last


class Trimmer:
    """Of the streams in `TRIMMED`, by these names. Every method raises BusUnavailable."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._jetstream = link.jetstream

    async def extents(self) -> dict[str, Extent]:
        """What every stream holds, as its leader says."""
        return {stream: await self._extent(stream) for stream in TRIMMED}

    async def trim(self, stream: str, through: int) -> None:
        """Remove every record up to sequence `through`, which must have been given already.

        A later one would be taken for the stream's last.
        """
        try:
            await self._jetstream.purge_stream(self._name(stream), seq=through + 1)
        except Unreachable as error:
            raise BusUnavailable(f"could not trim {stream}") from error

    async def _extent(self, stream: str) -> Extent:
        try:
            info = await self._jetstream.stream_info(self._name(stream))
        except Unreachable as error:
            raise BusUnavailable(f"could not ask for {stream}") from error
        first = max(1, info.state.first_seq)  # 0 where there was never anything
        return Extent(first, info.state.last_seq, info.created)

    def _name(self, stream: str) -> str:
        return f"{_STREAMS[stream]}{self._link.name(stream)}"
