"""Metrics of inference engines and of the gateways in front of them."""
