# SPDX-License-Identifier: BSD-3-Clause
"""Incidents: what is wrong in a session, grouped by cause, and followed over sessions in a ledger.

Never here: history over all series (`history`), or tables for the screen (`views`).
"""

#: The states of an incident, from what must be acted on to what is over; `intermittent`: open again after healthy
#: sessions.
STATES = ('open', 'intermittent', 'acknowledged', 'suspected', 'healing', 'closed')
#: Those that fail a session.
FAILING = ('open', 'intermittent')
