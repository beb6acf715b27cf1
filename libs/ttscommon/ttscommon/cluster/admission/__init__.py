"""Admission of one more stream: pure arithmetic that gateways and the planner share."""

from ttscommon.cluster.admission.capacity import View
from ttscommon.cluster.admission.ends import Ends
from ttscommon.cluster.admission.judge import Judge
from ttscommon.cluster.admission.limits import AdmissionLimits, LoopTuning
from ttscommon.cluster.admission.loop import Loop, Streams

__all__ = [
    "AdmissionLimits",
    "Ends",
    "Judge",
    "Loop",
    "LoopTuning",
    "Streams",
    "View",
]
