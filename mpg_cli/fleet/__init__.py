"""A fleet from its schedulers' files: from records to the report."""
