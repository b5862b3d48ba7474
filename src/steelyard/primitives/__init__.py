"""Words without a domain: instants, windows, units, unknowns, errors, translations. Imports nothing of ours."""
