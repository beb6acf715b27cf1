"""Hands a dead worker's jobs on, and requeues jobs without a holder. One gateway's is elected."""

from ttscommon.cluster.reaper.reaper import Reaper
