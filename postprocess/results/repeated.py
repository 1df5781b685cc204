# SPDX-License-Identifier: BSD-3-Clause
"""Find cases whose samples equal those of an earlier session to the last digit: a program replayed an old output."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import Any

from postprocess.results.rows import RunReport, SampleRow
from postprocess.results.store import Store
from postprocess.results.tables import reached_its_end
from postprocess.text import count

DAYS = 90  # days of sessions that are compared
# Honest samples differ by 1e-4 and more in all but a few checks (usual_spread: 0.3 to 10 %), so each digit beyond the
# fourth is equal by chance in one of ten. Of all pairs of sessions of a year of 1000 cases, 3e8, none has so many:
_ENOUGH = 12.0
_FIRST, _MOST = 4, 4  # leading digits that do not count, and the most that count: programs compute in double precision
# What was computed from others has 15 digits, or 14 in one of ten and 13 in one of a hundred numbers, whose last ones
# are zeros by chance; it tells as little as the digits that it was computed from
_PRINTED = 13
_OF_COMPUTED = 0.5
_NUMBER = ('metric', 'dims', 'value')
_ANYWHERE = 'SELECT DISTINCT metric, dims, value FROM tonight SEMI JOIN samples USING (metric, dims, value)'
_IN_THE_SAME_CASE = """
    SELECT tonight.case_id, tonight.trial, samples.night, samples.case_id AS other, samples.trial AS other_trial,
        count(DISTINCT (tonight.metric, tonight.dims)) AS same
    FROM tonight JOIN cases USING ("partition", environ, "check", params)
    JOIN samples ON samples.night = cases.night AND samples.case_id = cases.case_id AND samples.metric = tonight.metric
        AND samples.dims = tonight.dims AND samples.value = tonight.value
    GROUP BY ALL
"""


def telling_digits(value: float) -> float:
    """Return the number of digits in which two honest samples agree only by chance."""
    digits = len(f'{abs(value):.15g}'.partition('e')[0].replace('.', '').strip('0'))
    return _OF_COMPUTED if digits > _PRINTED else float(min(max(digits - _FIRST, 0), _MOST))


def mark_repeated(store: Store, report: RunReport) -> tuple[RunReport, list[str]]:
    """Return `report` with the metrics of each case invalid that printed an earlier session's samples again; say which.

    A trial repeats another one if all its samples are those of one trial of the same check, params, partition and
    environ. Earlier sessions are those of the site that ended before this one began. Raises InputError.
    """
    started, of_site = report.session.started, store.sessions(report.session.site)
    earlier = [session for session in of_site if started - timedelta(DAYS) < session.ended <= started]
    cases = {case.case_id: case for case in report.cases if reached_its_end(case.result, case.fail_phase)}
    trials: dict[tuple[int, int], list[SampleRow]] = defaultdict(list)
    for sample in report.samples:
        if sample.case_id in cases:
            trials[sample.case_id, sample.trial].append(sample)
    if not (earlier and trials):
        return report, []
    # Honest nights end here: that each sample of enough trials is in any earlier case, too, is seldom chance
    anywhere = store.select(_ANYWHERE, earlier, tonight=_columns(trials, _NUMBER))
    known = {tuple(row[name] for name in _NUMBER) for row in anywhere}
    digits = {
        trial: sum(telling_digits(sample.value) for sample in samples)
        for trial, samples in trials.items()
        if all((sample.metric, sample.dims, sample.value) in known for sample in samples)
    }
    of_case: dict[int, float] = defaultdict(float)
    for (number, _), telling in digits.items():
        of_case[number] += telling
    suspects = {trial: trials[trial] for trial in digits if of_case[trial[0]] >= _ENOUGH}
    if not suspects:
        return report, []
    columns = _columns(suspects, ('case_id', 'trial', *_NUMBER))
    for name in ('partition', 'environ', 'check', 'params'):
        columns[name] = [getattr(cases[number], name) for number in columns['case_id']]
    told: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for row in store.select(_IN_THE_SAME_CASE, earlier, tonight=columns):
        trial = row['case_id'], row['trial']
        if row['same'] == len(trials[trial]):
            told[row['case_id'], row['night']][row['trial']] = digits[trial]
    said = {}
    for (number, night), of_trials in sorted(told.items()):
        if sum(of_trials.values()) >= _ENOUGH:
            before = earlier[night]
            same = sum(len(trials[number, trial]) for trial in of_trials)
            said[number] = (
                f'printed again: {count(same, "sample")} of {count(len(of_trials), "trial")} are to the last digit '
                f'those of session {before.short_name} of {before.started:%Y-%m-%d %H:%M}'
            )
    metrics = [
        row._replace(invalid=row.invalid or said[row.case_id], status='invalid') if row.case_id in said else row
        for row in report.metrics
    ]
    return replace(report, metrics=metrics), [f'{cases[number].name}: {why}' for number, why in said.items()]


def _columns(trials: dict[tuple[int, int], list[SampleRow]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return the fields `names` of all samples of `trials`, by column."""
    return {name: [getattr(sample, name) for samples in trials.values() for sample in samples] for name in names}
