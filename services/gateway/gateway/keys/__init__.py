"""API keys: who calls, and what the caller may use."""

from gateway.keys.ring import ANONYMOUS, KeyRing, KeysError, Tenant, TextLimits
from gateway.keys.watch import KeysWatch

__all__ = ["ANONYMOUS", "KeyRing", "KeysError", "KeysWatch", "Tenant", "TextLimits"]
