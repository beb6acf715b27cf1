"""What both doors share: from a client's wishes to a SpeechRequest."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from gateway.catalogue import Catalogue
from gateway.keys import ANONYMOUS, KeyRing
from gateway.settings import GatewaySettings
from gateway.speech import Backstage
from ttscommon.messages import SpeechRequest
from ttscommon.replicas import Model, Voice

_SEEDS = 1 << 31


@dataclass(frozen=True)
class Front:
    """The parts that the routes and the sessions of one gateway work with."""

    settings: GatewaySettings
    catalogue: Catalogue
    backstage: Backstage
    keys: KeyRing


def new_request_id() -> str:
    """128 random bits: whoever knows a request's id may listen to it."""
    return secrets.token_urlsafe(16)


def new_seed() -> int:
    return secrets.randbelow(_SEEDS)


def speech_request(
    request_id: str,
    model: Model,
    voice: Voice,
    text: str,
    *,
    text_final: bool = True,
    seed: int | None = None,
    language: str | None = None,
    tenant: str = ANONYMOUS,
) -> SpeechRequest:
    """The job, with what the client left open filled in."""
    return SpeechRequest(
        request_id=request_id,
        model=model.name,
        voice=voice.id,
        text=text,
        text_final=text_final,
        language=language or voice.language,
        seed=new_seed() if seed is None else seed,
        tenant=tenant,
        created_unix_s=time.time(),
    )
