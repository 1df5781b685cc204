"""What every check shares: the base class, metrics, placement, topology and the stack fixture."""
