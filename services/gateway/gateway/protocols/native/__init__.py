"""`WS /v1/audio/speech/stream`: text in as it is written, audio out as it is made."""

from gateway.protocols.native.session import NativeSession

STREAM_PATH = "/v1/audio/speech/stream"
