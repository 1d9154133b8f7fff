"""Records of schedulers into jobs and attempts: one clock, each record once, attempts in their order."""
