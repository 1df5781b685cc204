"""Incidents of a session: what is not as it should be, grouped by cause; what an administrator acts on."""
