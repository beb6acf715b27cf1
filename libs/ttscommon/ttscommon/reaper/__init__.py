"""Hands a dead worker's jobs on, and requeues jobs that nobody holds. One gateway's is elected."""

from ttscommon.reaper.reaper import Reaper
from ttscommon.reaper.tuning import ReaperTuning

__all__ = ["Reaper", "ReaperTuning"]
