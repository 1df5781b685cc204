# SPDX-License-Identifier: BSD-3-Clause
"""Incidents of a session: what is not as it should be, grouped by cause; what an administrator acts on."""

#: The states of an incident, from what must be acted on to what is over; `intermittent`: open again after healthy
#: sessions.
STATES = ('open', 'intermittent', 'acknowledged', 'suspected', 'healing', 'closed')
#: Those that fail a session.
FAILING = ('open', 'intermittent')
