"""The ten answers over the ledgers, one contract for all of them."""
