# SPDX-License-Identifier: BSD-3-Clause
"""What later sessions say of incidents, baselines and further jobs, and what they must not say."""

from datetime import datetime, timezone
from pathlib import Path

from run_reports import BEGAN, DAY, case, metric, record, reference, report

from ci import so_far
from plumbline.problems import Problem
from postprocess.history import plan
from postprocess.history.verdicts import verdicts_of
from postprocess.results.store import Store
from postprocess.verdicts import baseline_files, proposals, retire

NODES = 'n1', 'n2', 'n3', 'n4'
WHOLE = {'cpus': '2', 'memory': '24 GiB'}
HALF = WHOLE | {'memory': '12 GiB'}


def good(check='Gemm', params='size=big', **fields):
    return case(check, params, {'triad': metric([99.9, 100.1])}, **fields)


def bad(check='Gemm', params='size=big', code='validation', what='x', **fields):
    """A case that failed, with a cause."""
    entry = good(check, params, **fields) | {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': what}
    entry['record']['causes'] = [{'code': code, 'what': what}]
    return entry


def night(work, number, *entries, problem=None, mode='quick'):
    """Store a session without judging it."""
    content = report(*entries, uuid=f'{number:08x}', mode=mode, began=BEGAN + number * DAY)
    work.store(content, *filter(None, [problem]))


def swept(node, facts=WHOLE, value=100.0):
    """A case of a node sweep."""
    names = {'unique_name': f'S{node}', 'display_name': f'STREAM %size=big %cpu.nid={node}'}
    metrics = {'triad': metric([0.999 * value, 1.001 * value])}
    return case('STREAM', 'size=big', metrics, nodes=(node,), provenance=facts, **names)


def states(work):
    """Exit code, and place -> state of the incidents."""
    document = work.compare()
    return document['exit_code'], {one['where']: one['state'] for one in document['incidents']}


def test_other_hardware_of_a_node_lasts_until_a_job_ran_there(work):
    night(work, 1, *map(swept, ('n1', 'n2', 'n3')))
    record(work)
    night(work, 2, swept('n1'), swept('n2'), swept('n3', HALF))
    assert states(work) == (1, {'n3': 'open'})
    night(work, 3, swept('n1'), swept('n2'))
    assert states(work) == (1, {'n3': 'open'})
    (again,) = work.compare()['again']
    assert again['on'] == 'n3' and again['name'].startswith('STREAM')
    night(work, 4, *map(swept, ('n1', 'n2', 'n3')))
    assert states(work)[0] == 0


def test_a_session_that_was_cut_short_says_nothing_of_a_node_that_heals(work):
    checks = {'STREAM': 'n1', 'Dgemm': 'n2', 'HPL': 'n3'}
    work.reference(*(reference(check=check) for check in checks))
    well = [good(check, nodes=(node,)) for check, node in checks.items()]
    night(work, 0, *well)
    failed = bad('HPL', nodes=('n3',), code='node-fail')
    failed['record']['job']['state'] = 'NODE_FAIL'
    night(work, 1, *well[:2], failed)
    assert states(work) == (1, {'n3': 'open'})
    night(work, 2, *well)
    assert states(work)[1] == {'n3': 'healing'}
    night(work, 3, *well[:2], problem=Problem('did not come to its end', 'cut short', why='time'))
    assert states(work)[1]['n3'] == 'healing'


def test_a_night_that_is_killed_among_its_further_jobs_has_told_what_it_found(work, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    work.reference(reference(check='Gemm'))
    night(work, 1, good())
    assert states(work) == (0, {})
    night(work, 2, bad())
    so_far.in_doubt.__wrapped__(Path(work.results), '00000002')
    night(work, 3, good())
    assert work.compare()['incidents'], 'as it heals'


def budget(work, parts, purpose):
    """The jobs that are asked for after 15 nights of 20 cases, of which `parts` had a further job in each night."""
    names = [f'C{number:02}' for number in range(20)]
    work.reference(*(reference(check=name, std='0.5', n='30', mode='quick') for name in names))
    for number in range(15):
        noise = [100 * (1 + 0.003 * ((number * 7 + place * 3) % 5 - 2)) for place in range(20)]
        noise[19] = 97.0 if number == 14 else 100.0
        entries = [case(name, metrics={'triad': metric([value] * 3)}) for name, value in zip(names, noise, strict=True)]
        content = report(*entries, uuid=f'{number:08x}', mode='quick', began=BEGAN + number * DAY)
        further = [entry | {'plumbline_purpose': purpose} for entry in entries[:parts]]
        content['runs'] += [{'testcases': further}] * bool(parts)
        work.ingest(content)
    store = Store(work.results)
    return [again.name.split()[0] for again in verdicts_of(store, store.find('latest'), work.sites).again]


def test_jobs_that_ran_what_the_first_ones_left_use_up_no_further_jobs(work):
    assert budget(work, 6, 'rest') == ['C19']


def test_further_jobs_of_cases_in_doubt_use_up_the_budget(work):
    assert budget(work, 6, '') == []


def test_a_row_that_was_recorded_after_it_was_retired_is_missed_when_it_is_lost(work):
    of_site = Store(work.results), 'cluster'
    night(work, 0, case('Gemm', metrics={'triad': metric([100.0])}))
    first, again = (reference(check='Gemm', recorded_at=day) for day in ('2026-11-01', '2026-11-20'))
    stays = reference(check='STREAM')
    work.reference(first, stays)
    proposals.remember(*of_site, work.sites)
    retire.retire(work.results, 'cluster', ['Gemm'], 'x', work.sites, datetime(2026, 11, 10))
    assert not baseline_files.problems(*of_site, work.sites)
    for row in (first, again):
        work.reference(row, stays)
        proposals.remember(*of_site, work.sites)
        work.reference(stays)
        assert bool(baseline_files.problems(*of_site, work.sites)) == (row is again)


def test_a_case_that_each_night_ended_too_early_for_is_due(work, monkeypatch):
    metrics = {'BabelStreamHost': 'bandwidth', 'IOR': 'bandwidth'}
    rows = {'params': '-', 'std': '0.5', 'n': '30', 'mode': 'nightly'}
    work.reference(*(reference(check=check, metric=name, **rows) for check, name in metrics.items()))
    cut = {'result': 'abort', 'fail_phase': 'run', 'plumbline_not_run': 'time', 'jobid': None, 'nodes': ()}
    for number in range(40):
        entries = [case(check, '-', {name: metric([99.9, 100.1])}) for check, name in metrics.items()]
        if number:
            entries[1] = case('IOR', '-', **cut)
        night(work, number, *entries, mode='nightly')
    today = datetime.fromtimestamp(BEGAN + 39.5 * DAY, timezone.utc).replace(tzinfo=None)
    monkeypatch.setattr('postprocess.history.plan.now', lambda: today)
    found = plan.plan(Store(work.results), None, 10, root=work.sites)
    assert {look.place.name.split()[0]: round(look.age, 1) for look in found.looks} == {
        'BabelStreamHost': 0.5,
        'IOR': 39.5,
    }
    assert found.reason(found.chosen[0]) == 'rotation: it ran last 40 days ago'


def test_a_part_that_is_slow_and_was_accepted_is_no_loss(work):
    slow = 2
    levels = {device: 80 if device == slow else 100 for device in range(8)}
    of = {'check': 'Copy', 'partition': 'gpu', 'n': '20', 'std': '0.5'}
    work.reference(*(reference(params=f'device={device}', mean=f'{level}', **of) for device, level in levels.items()))
    for number in range(1, 4):
        values = {device: level * (1 + 0.002 * ((device * 3 + number) % 4 - 1.5)) for device, level in levels.items()}
        at = {'partition': 'gpu', 'nodes': ('g1',)}
        night(
            work,
            number,
            *(
                case('Copy', f'device={device}', {'triad': metric([value] * 2)}, **at)
                for device, value in values.items()
            ),
        )
        assert states(work) == (0, {}), number


def acknowledge(work):
    """Acknowledge the incident of the last session."""
    (known,) = work.compare()['incidents']
    answer = work.run('incidents acknowledge', known['id'], '--why', 'x', '--until', '2026-12-24')
    assert answer.exit_code == 0, answer.output
    assert work.compare()['exit_code'] == 0


def test_an_acknowledged_failure_excuses_no_other_cause(work):
    work.reference(reference(check='Gemm'))
    night(work, 1, good())
    night(work, 2, bad(code='binding', what='rank 0 got other CPUs'))
    acknowledge(work)
    night(work, 3, bad(code='binding', what='rank 1 got other CPUs'))
    assert states(work)[0] == 0
    night(work, 4, bad(code='validation', what='the residual is 1e9'))
    assert states(work)[0] == 1
    shown = work.run('incidents show', work.compare()['incidents'][0]['id']).stdout
    assert 'another cause (validation), acknowledged with binding' in ' '.join(shown.split())


def test_an_acknowledged_crash_excuses_no_other_case(work):
    work.reference(reference(check='STREAM'))
    crash = {'result': 'fail', 'fail_phase': 'run', 'fail_reason': 'crashed'}
    night(work, 1, case('Gemm', 'size=small', **crash), good('Gemm'), good('STREAM'))
    acknowledge(work)
    night(work, 2, good('Gemm', 'size=small'), case('Gemm', 'size=big', **crash), good('STREAM'))
    assert states(work)[0] == 1


def test_acknowledged_hardware_excuses_neither_other_hardware_nor_a_lost_node(work):
    nodes = 'n1', 'n2', 'n3'
    night(work, 1, *map(swept, nodes))
    record(work)
    night(work, 2, *map(swept, nodes[:2]), swept('n3', HALF))
    acknowledge(work)
    night(work, 3, *map(swept, nodes[:2]), swept('n3', HALF))
    assert states(work)[0] == 0
    lost = Problem('n3 is down', 'node lost', 'cpu', nodes=('n3',))
    night(work, 4, *map(swept, nodes[:2]), problem=lost)
    assert states(work)[0] == 1
    night(work, 5, *map(swept, nodes[:2]), swept('n3', WHOLE | {'cpus': '1'}))
    assert states(work)[0] == 1


def losses(work):
    """Place -> loss in % of the incidents that have one."""
    return {one['where']: round(one['loss']) for one in work.compare()['incidents'] if one['loss'] is not None}


def test_a_slow_node_stays_one_incident_whichever_series_met_it_last(work):
    """Its size is that of all series that met it, and explains each of them."""
    work.reference(*(reference(check=check, std='0.5', n='20') for check in ('STREAM', 'HPL')))

    def on_n3(check, value):
        return case(check, 'size=big', {'triad': metric([0.999 * value, 1.001 * value])}, nodes=('n3',))

    night(work, 1, *(swept(node, value=50.0 if node == 'n3' else 100.0) for node in NODES))
    shown = [losses(work)]
    for number, (check, value) in enumerate([('HPL', 94), ('HPL', 94), ('STREAM', 50)], 2):
        night(work, number, on_n3(check, value))
        shown.append(losses(work))
    assert [set(one) for one in shown] == [{'n3'}] * 4
    first, *later = [one['n3'] for one in shown]
    assert first == 50 and all(6 < size < 50 for size in later)
