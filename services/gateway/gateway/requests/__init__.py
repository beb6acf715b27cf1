"""Requests, from a source to one end, and the catalogue of what can be spoken."""

from gateway.requests.aliases import DEFAULT, Aliases
from gateway.requests.catalogue import Catalogue, CatalogueTuning
from gateway.requests.context import GatewayContext, new_request_id
from gateway.requests.incremental import IncrementalText
from gateway.requests.kept import NewVoice, StoredVoice
from gateway.requests.listeners import Listeners, ResumeTokens
from gateway.requests.options import RequestOptions, SpeechSpec
from gateway.requests.retention import Retention
from gateway.requests.rows import Production
from gateway.requests.services import Lookups, RequestServices
from gateway.requests.sessions import RunningResponse, StoredSession
from gateway.requests.snapshot import ReplicaSnapshot
from gateway.requests.speech import Speech
from gateway.requests.usage import UsageCounter
