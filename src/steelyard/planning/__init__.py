"""Demand shapes become a plan. Empty until its issue is worked."""
