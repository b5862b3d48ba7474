"""A cluster that does not exist, written in the formats of the sources with code of its own, with its ground truth."""
