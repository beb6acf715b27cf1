"""Drives the client that openapi-python-client makes of /openapi.json: URL KEY."""

import sys

from described import AuthenticatedClient
from described.api.open_ai import create_speech, list_models
from described.models import OpenAiErrorBody, SpeechBody

url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key)
print(list_models.sync(client=client).data[0].id)
body = SpeechBody.from_dict(
    {"input": "The tide is coming in.", "response_format": "wav", "stream": False}
)
spoken = create_speech.sync_detailed(client=client, body=body)
with open("tide.wav", "wb") as file:
    file.write(spoken.content)
stranger = AuthenticatedClient(base_url=url, token="of nobody")
refused = create_speech.sync_detailed(client=stranger, body=body)
assert isinstance(refused.parsed, OpenAiErrorBody), refused
print(int(refused.status_code), refused.parsed.error.code)
