"""What must add up: postings and balances that SQL models derive from facts."""
