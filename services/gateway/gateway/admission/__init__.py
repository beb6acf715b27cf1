"""Admission: which requests may start now, by forecast, shares, floods, keys and limits."""

from gateway.admission.admission import Admission, Grant
from gateway.admission.exchange import Exchange
from gateway.admission.keys import ANONYMOUS, KeyRing, KeysError
from gateway.admission.peers import Peers
from gateway.admission.terms import Applicant
from gateway.admission.watch import KeysWatch
from ttscommon.cluster.admission import REST_S, AdmissionLimits

__all__ = [
    "ANONYMOUS",
    "REST_S",
    "Admission",
    "AdmissionLimits",
    "Applicant",
    "Exchange",
    "Grant",
    "KeyRing",
    "KeysError",
    "KeysWatch",
    "Peers",
]
