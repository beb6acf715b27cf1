"""The reading half of an audio log, which holds no samples."""

from __future__ import annotations

from ttscommon.bus.link import Link
from ttscommon.bus.logs.audio_source import AudioSource, GrantedRoom
from ttscommon.bus.logs.credit import Grants
from ttscommon.bus.logs.inbox import Inbox
from ttscommon.bus.logs.logstore import LogStore
from ttscommon.bus.logs.reader import RecordReader
from ttscommon.bus.logs.repair import DEFAULT_TUNING, ReaderTuning
from ttscommon.bus.logs.suspicion import Suspicion
from ttscommon.bus.logs.timeline import Timeline
from ttscommon.bus.queue import JobQueue
from ttscommon.wire.subjects import AUDIO


class AudioReader(RecordReader):
    """Reads audio: what it missed is sent, decoded or made again, the last after `remake`.

    It holds as many bytes as it grants the writer, and some that were on their way: what does not
    fit is dropped, and asked for when there is room.
    """

    def __init__(
        self,
        link: Link,
        logs: LogStore,
        queue: JobQueue,
        request_id: str,
        start: int = 0,
        *,
        fresh: bool = False,
        tuning: ReaderTuning = DEFAULT_TUNING,
    ) -> None:
        self._grants = Grants(link, AUDIO.nack(request_id), start, tuning.credit_bytes)
        self._room = GrantedRoom(self._grants, start)
        suspicion = Suspicion(tuning.idle_first_s, tuning.idle_most_s, behind=not fresh)
        inbox = Inbox(Timeline(start, keeps=False), self._room, suspicion)
        self._audio = AudioSource(link, logs, queue, request_id, inbox, self._grants)
        super().__init__(link, AUDIO, request_id, inbox, suspicion, self._audio, tuning)

    @property
    def held_bytes(self) -> int:
        """Of sound that waits to be read."""
        return self._room.held_bytes

    @property
    def log_ended(self) -> bool:
        """The log is known to have its End, whatever of its audio is still to come."""
        return self._inbox.timeline.end is not None

    def remake(self) -> None:
        """From now on what is missing before the log's End may be made again."""
        self._audio.remakes = True
        if self._inbox.timeline.gap:
            self._suspicion.arouse()
