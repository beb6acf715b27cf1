"""ElevenLabs' text-to-speech: HTTP, `stream-input` and `multi-stream-input`."""

from gateway.protocols.elevenlabs.dialogue import router as dialogue_router
from gateway.protocols.elevenlabs.dialogue_sockets import DialogueInput, DialogueStream
from gateway.protocols.elevenlabs.http import error_shape, router
from gateway.protocols.elevenlabs.sockets import MultiStreamInput, StreamInput
from gateway.protocols.elevenlabs.voices import models
from gateway.protocols.elevenlabs.voices import router as voices_router

router.include_router(dialogue_router)
router.include_router(voices_router)
