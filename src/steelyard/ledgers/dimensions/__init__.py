"""Dimensions: what ledgers and answers join on, rebuilt from facts and settings by every posting run."""
