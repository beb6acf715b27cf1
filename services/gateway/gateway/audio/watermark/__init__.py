"""A mark in the sound itself, by Perth: added to streams, and found in recordings."""

from gateway.audio.watermark.network import NoWatermark, Perth
from gateway.audio.watermark.stream import (
    MARKED,
    BlockGrid,
    CutScore,
    WatermarkedStream,
    scores_of_cuts,
)
