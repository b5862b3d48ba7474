"""The door out: each actuator changes one system and yields an action fact. Empty until an action exists."""
