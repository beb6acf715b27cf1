"""What clients may send and what they get, in the forms that tools read: OpenAPI and AsyncAPI."""

from gateway.description.asyncapi import asyncapi
from gateway.description.openapi import openapi

__all__ = ["asyncapi", "openapi"]
