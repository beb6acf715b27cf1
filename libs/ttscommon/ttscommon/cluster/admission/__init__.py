"""Admission of one more stream: pure arithmetic that gateways and the planner share."""

from ttscommon.cluster.admission.capacity import Ends, View
from ttscommon.cluster.admission.judge import Judge
from ttscommon.cluster.admission.loop import AdmissionLimits, Loop, LoopTuning, Streams
