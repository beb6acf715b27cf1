"""Descriptions of what clients may send and get, in forms that tools read."""

from gateway.description.asyncapi import asyncapi
from gateway.description.openapi import openapi

__all__ = ["asyncapi", "openapi"]
