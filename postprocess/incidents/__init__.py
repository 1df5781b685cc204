# SPDX-License-Identifier: BSD-3-Clause
"""Incidents: what is wrong in a session, grouped by cause, and followed over sessions in a ledger.

Other rooms hold the history of all series (`history`) and the tables for the screen (`views`).
"""

from typing import Literal, get_args

#: The states of an incident, from those that need action to those that are over; `intermittent`: open again after
#: healthy sessions.
State = Literal['open', 'intermittent', 'acknowledged', 'suspected', 'healing', 'closed']
STATES: tuple[State, ...] = get_args(State)
#: The states that fail a session.
FAILING: tuple[State, ...] = ('open', 'intermittent')
