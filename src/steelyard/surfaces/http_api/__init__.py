"""The one HTTP server: answers, listings, imports, tokens and health over the ports that the application hands in."""

from steelyard.surfaces.http_api.building import create
from steelyard.surfaces.http_api.endpoint import Endpoint
from steelyard.surfaces.http_api.listening import Listening, serve_until_stopped

__all__ = ["Endpoint", "Listening", "create", "serve_until_stopped"]
