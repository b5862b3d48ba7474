"""Collection, piece by piece: what a collector is, when it is due, what becomes of a round, and the collectors themselves."""
