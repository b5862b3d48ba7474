"""A cluster that does not exist, emitted in the sources' own formats, with its ground truth. It shares no code with the readers."""
