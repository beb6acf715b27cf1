"""`POST /v1/audio/speech` and the lists around it, in OpenAI's shape."""

from gateway.protocols.openai.routes import router
