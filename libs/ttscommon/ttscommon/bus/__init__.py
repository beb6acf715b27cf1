"""The bus: deliver at once, commit right behind, and one reader's view of it all."""

from ttscommon.bus.connection import Bus
from ttscommon.bus.reader import LogReader
from ttscommon.bus.writer import LogWriter

__all__ = ["Bus", "LogReader", "LogWriter"]
