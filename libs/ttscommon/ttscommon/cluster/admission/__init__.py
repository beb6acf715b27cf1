"""Admission of one more stream: pure arithmetic that gateways and the planner share."""

from ttscommon.cluster.admission.ends import Ends
from ttscommon.cluster.admission.forecast import Forecast, View, forecast
from ttscommon.cluster.admission.judge import Judge
from ttscommon.cluster.admission.limits import REST_S, AdmissionLimits

__all__ = ["REST_S", "AdmissionLimits", "Ends", "Forecast", "Judge", "View", "forecast"]
