"""`python -m talker`."""

from talker.service import serve
from talker.settings import TalkerSettings
from ttscommon.process.service import launch

if __name__ == "__main__":
    launch("talker", TalkerSettings, serve)
