"""One request of Kokoro on the host."""

from __future__ import annotations

from collections.abc import Mapping

from ttscommon.wire.fields import Field
from ttsfamilies.base.talker.segments import LENGTH, SegmentStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.kokoro.request import Segment


class KokoroStream(SegmentStream):
    """See SegmentStream. frame: depends on the checkpoint's sizes."""

    def __init__(self, frame: Mapping[str, Field], rate_hz: float, passes: int) -> None:
        super().__init__(rate_hz, passes)
        self.frame = frame

    def begin(self, write: SlotWriter) -> None:
        segment: Segment = self.passage
        write("ids", segment.ids)
        write("pace", segment.pace)
        write("style", segment.style)
        write("row", segment.row)
        write(LENGTH, segment.length)
