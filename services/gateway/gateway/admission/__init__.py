"""Admission: which requests may start now, by the loop, shares, keys and limits."""

from gateway.admission.admission import Admission
from gateway.admission.exchange import Exchange
from gateway.admission.grant import Grant
from gateway.admission.keys import ANONYMOUS, KeyRing, KeysError
from gateway.admission.peers import Peers
from gateway.admission.terms import Applicant
from gateway.admission.watch import KeysWatch
from ttscommon.cluster.admission import AdmissionLimits

__all__ = [
    "ANONYMOUS",
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
