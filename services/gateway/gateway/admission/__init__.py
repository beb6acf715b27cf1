"""Admission: which requests may start now, by forecast, shares, floods, keys and limits."""

from gateway.admission.admission import Admission, AdmissionLimits, Applicant, Grant
from gateway.admission.keys import ANONYMOUS, KeyRing, KeysError

__all__ = [
    "ANONYMOUS",
    "Admission",
    "AdmissionLimits",
    "Applicant",
    "Grant",
    "KeyRing",
    "KeysError",
]
