"""The door in: one folder per system; every reader is ``read_*`` and yields facts. Only ``app`` imports it."""
