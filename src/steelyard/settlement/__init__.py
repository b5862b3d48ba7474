"""Settlement: periods, statements, corrections, budgets. Reads the ledgers and the snapshots of closed periods; changes no ledger."""
