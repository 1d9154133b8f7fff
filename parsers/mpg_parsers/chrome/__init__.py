"""Chrome Trace Event JSON: cut into blocks, decoded, repaired, packed into columns."""
