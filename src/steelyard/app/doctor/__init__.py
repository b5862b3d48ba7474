"""The doctor: what the configured sources and the stored facts show (``survey``), judged by small pure checks, with the way to mend each."""
