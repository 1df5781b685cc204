# SPDX-License-Identifier: BSD-3-Clause
"""What saved files of benchmarks and other tools become."""

import os
import random
from typing import NamedTuple

from run_reports import BEGAN
from scratch import OUTPUTS, ROOT

from plumbline.causes import sentence
from plumbline.errors import InputError
from plumbline.identity import to_text
from postprocess.readers.measurements import read_measurements
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in

FORMATS, PEOPLE = ROOT / 'tests/data/formats', ROOT / 'tests/data/as-people-have-them'


class Found(NamedTuple):
    """What files became; the later of the same series counts."""

    numbers: dict  # check, params, metric and dims in words -> mean, unit, direction and number of trials
    failed: list  # why cases failed
    notes: list
    days: set


def found_in(name, *paths):
    found = Found({}, [], [], set())
    for path in paths:
        for report in read_measurements(path, name, 'box'):
            cases = {case.case_id: f'{case.check} {to_text(case.params)}' for case in report.cases}
            found.failed.extend(sentence(case.causes, case.evidence) for case in report.cases if case.result == 'fail')
            found.notes.extend(report.notes)
            found.days.add(f'{report.session.started:%Y-%m-%d}')
            for row in report.metrics:
                series = f'{cases[row.case_id]} {row.metric} {to_text(row.dims)}'
                found.numbers[series] = (row.summary.mean, row.quantity.unit, row.quantity.better, row.summary.n)
    return found


def saved(file):
    return next(folder / file for folder in (OUTPUTS, FORMATS, PEOPLE) if (folder / file).exists())


def ingest(work, path, name, *more, code=0):
    answer = work.run('ingest', '--format', name, '--site', 'box', path, *more)
    assert answer.exit_code == code, answer.output
    return answer.output


def numbers(work):
    """Each stored series: check, params, dims, metric -> mean, unit, better, n; of the sessions in their order."""

    def named(of):
        return ','.join(f'{name}={value}' for name, value in of)

    store = Store(work.results)
    sessions = sorted(store.sessions('box'), key=lambda one: one.started)
    return [
        {
            (row.id.check, named(row.id.params), named(row.id.dims), row.id.metric): (
                row.summary.mean, row.quantity.unit, row.quantity.better, row.summary.n,
            )
            for row in measured_in(store, session)
            if row.summary.n
        }
        for session in sessions
    ]  # fmt: skip


def keys_of(path, name):
    """Return each number of a file by series, node and trial, and what it is said to lack or to have wrong."""
    numbers_of, told = {}, []
    for report in read_measurements(path, name, 'box'):
        cases = {case.case_id: case for case in report.cases}
        told += [sentence(case.causes, case.evidence) for case in report.cases if case.result == 'fail']
        told += [row.missing for row in report.metrics if row.missing]
        for row in report.metrics:
            case = cases[row.case_id]
            series = case.partition, case.check, to_text(case.params), row.metric, to_text(row.dims)
            for trial, node, value in row.samples:
                numbers_of[(*series, node, trial, str(report.session.started))] = value
    return numbers_of, told


def cut_anywhere(path, name, content, is_open_ended=False):
    """Write `content` to a file, cut it short at many places, and assert that each cut is named, or costs only its end.

    `is_open_ended`: the format does not say how many lines it holds; what is gone is missing beside a baseline.
    """
    path.write_bytes(content)
    os.utime(path, (BEGAN, BEGAN))
    (whole, _), text, choose = keys_of(path, name), path.read_bytes(), random.Random(3)
    ends = {at for at, byte in enumerate(text, 1) if byte == ord('\n')}
    for length in sorted({*choose.sample(sorted(ends), min(15, len(ends))), *choose.sample(range(len(text)), 15)}):
        path.write_bytes(text[:length])
        os.utime(path, (BEGAN, BEGAN))
        try:
            found, told = keys_of(path, name)
        except InputError as error:
            assert str(path) in str(error) and '\n' not in str(error)
            continue
        if told:  # its date may be cut off, too: then that of the file counts
            found, all_of_it = ({key[:-1]: value for key, value in of.items()} for of in (found, whole))
            assert found.items() <= all_of_it.items(), (length, told)
            continue
        assert found.items() <= whole.items(), length
        assert found == whole or (is_open_ended and length in ends | {end - 1 for end in ends}), length


def assert_is_refused(work, path, name, text, said):
    """The file is named with what was expected, and nothing of it is stored."""
    path.write_text(text)
    answer = ingest(work, path, name, code=2)
    assert said in ' '.join(answer.split()) and path.name in answer and not Store(work.results).sites()
