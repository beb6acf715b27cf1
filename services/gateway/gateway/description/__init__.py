"""Descriptions of what clients may send and get, in forms that tools read."""

from gateway.description.openapi import openapi
