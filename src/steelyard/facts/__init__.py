"""What was seen: immutable typed rows, one file per table, with the common keys of ``base.Fact``."""
