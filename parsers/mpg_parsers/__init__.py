"""Files people already have, as column batches of the canonical tables. Knows formats, not goodput."""
