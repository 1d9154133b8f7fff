"""Claims on chip-time, resolved into a ledger that closes."""
