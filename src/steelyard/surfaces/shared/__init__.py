"""Ports that ``app`` implements, and what all surfaces render with."""
