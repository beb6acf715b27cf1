"""A mark in the sound itself, by Perth: added to streams, and found in recordings."""

from gateway.audio.watermark.detection import MARKED, CutScore, scores_of_cuts
from gateway.audio.watermark.network import NoWatermark, Perth
from gateway.audio.watermark.stream import BlockGrid, WatermarkedStream

__all__ = [
    "MARKED",
    "BlockGrid",
    "CutScore",
    "NoWatermark",
    "Perth",
    "WatermarkedStream",
    "scores_of_cuts",
]
