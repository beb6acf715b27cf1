"""Fields of a request that are not met, or met in another way, by name."""

from __future__ import annotations

from typing import Final

from gateway.requests.incremental import IncrementalText
from gateway.requests.sources import SpeechSpec

# Families that read English by themselves, phones and kinds included, and no other script than
# those of Europe. The networks of others read the text as it is.
_READS_ENGLISH: Final = frozenset({"vesper"})


def dropped(spec: SpeechSpec, text: IncrementalText) -> list[str]:
    """Names of fields, `text:SCRIPT`, `markup:NAME`, and `lexicons:phoneme`."""
    reads = spec.model.family in _READS_ENGLISH
    slowest, fastest = spec.model.speeds
    phonetic = any(lexicon.phonetic for lexicon in spec.lexicons)
    unread = ["lexicons:phoneme"] if phonetic and not reads else []
    told = text.dropped(phones=reads, pace=slowest < fastest, scripts=reads)
    return [*spec.ignored, *unread, *told]
