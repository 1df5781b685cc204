"""What is metered around a benchmark: energy, health of the node, power caps."""
