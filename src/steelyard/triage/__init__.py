"""A symptom becomes ranked hypotheses. Empty until its issue is worked."""
