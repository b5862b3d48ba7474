"""The command line: a thin skin over the answers and the ports."""
