"""Admission: which requests may start now, by the loop, shares and limits."""

from gateway.admission.admission import Admission
from gateway.admission.control import Applicant, Grant
from gateway.admission.exchange import Exchange
from gateway.admission.peers import Peers
