"""Retention of what ended requests leave at the broker: who needs it, how long, its removal."""

from gateway.requests.retention.retention import Retention, RetentionTuning

__all__ = ["Retention", "RetentionTuning"]
