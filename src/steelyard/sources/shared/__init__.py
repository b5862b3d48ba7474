"""What the readers of several systems share: the read context, quantities, bounded decoding."""
