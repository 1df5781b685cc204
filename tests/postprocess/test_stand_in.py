# SPDX-License-Identifier: BSD-3-Clause
"""Slow nodes and parts of nodes without a baseline: `plumbline compare` and `fleet` on stored sessions."""

import csv
import io
import json
import re

import numpy
import pytest
from lxml import html
from rows import each_row
from run_reports import BEGAN, DAY, SITE, case, metric, on_nodes, reference, report

import postprocess
from plumbline.identity import SeriesId, from_text
from postprocess.history.drain import drain, write_drain
from postprocess.history.findings import judge_all
from postprocess.history.verdicts import verdicts_of
from postprocess.incidents import ledger
from postprocess.results.store import Store
from postprocess.verdicts.stand_in import part_of


def sessions(work, nodes=12, nights=8, slow=None, provenance=None, jobs=None, first=0, mode='nightly', also=()):
    """Ingests nights with a value a node, or a job of several; `slow`: (node or nodes, night) -> share that is left.

    `also`: metrics that are 100 on each healthy node.
    """
    rng = numpy.random.default_rng(5)
    names = jobs or [(f'n{i}',) for i in range(nodes)]
    levels = 100 * numpy.exp(0.02 * rng.standard_normal(len(names)))
    reports = []
    for night in range(nights):
        values = levels * numpy.exp(0.003 * rng.standard_normal(len(names)) + 0.005 * rng.standard_normal())
        entries = []
        for name, value in zip(names, values, strict=True):
            left = (slow or (lambda name, night: 1))(','.join(name), first + night)
            facts = (provenance or (lambda name, night: {}))(name[0], first + night)
            metrics = {'triad': metric([value * left] * 2)} | {of: metric([100 * left] * 2) for of in also}
            entries.append(case(metrics=metrics, nodes=name, provenance=facts, unique_name='_'.join(name)))
        reports.append(report(*entries, uuid=f'{first + night:04}', mode=mode, began=BEGAN + (first + night) * DAY))
    work.ingest(*reports)


def incidents(work, code=1):
    """Judges the newest night and returns (kind, scope) of its incidents, and the incidents."""
    result = work.run('compare', '--format', 'json')
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)['incidents']
    return [(one['kind'], one['where']) for one in found], found


def test_every_node_is_listed_as_the_page_has_it(work):
    sessions(work, slow=lambda name, night: 0.9 if name == 'n3' else 1, nights=1)
    work.reference(reference())
    rows = list(csv.DictReader(io.StringIO(work.run('fleet', '--nodes', '--format', 'csv').stdout)))
    assert work.run('report').exit_code < 2
    table = html.fromstring((work.results / 'report.html').read_text()).get_element_by_id('fleet')
    named = [head.get('data-column') for head in table.find('thead/tr')]
    assert named == [name for name in rows[0] if any(row[name] for row in rows)], 'what is empty is left out'
    assert {'name', 'furthest', 'worst'} <= set(named)
    shown = [{cell.get('data-column'): cell.text_content() for cell in row} for row in table.find('tbody')]
    assert [row['name'] for row in shown] == [row['name'] for row in rows] and len(rows) == 12
    for on_page, row in zip(shown, rows, strict=True):
        assert on_page['furthest'] == f'{round(float(row["furthest"]), 1) + 0.0:+.1f} %'
    heads = re.split('  +', work.run('fleet', '--nodes').stdout.splitlines()[0].strip())
    assert [head.text_content().lower() for head in table.find('thead/tr')] == heads


def test_a_node_is_flagged_kept_in_the_ledger_and_proposed_to_be_drained_the_second_time(work):
    def slow(name, night):
        return 0.9 if name == 'n3' and night > 6 else 1

    sessions(work, nights=8, slow=slow)
    scopes, (found,) = incidents(work, code=0)
    assert scopes == [('NODE', 'n3')] and found['state'] == 'suspected', 'a single job shows it'
    assert found['loss'] == pytest.approx(10, abs=1) and found['loss_low'] < 10 < found['loss_high']
    assert not [*work.results.glob('proposals/drain-*')]
    sessions(work, nights=1, first=8, slow=slow)
    (again,) = incidents(work)[1]
    assert again['id'] == found['id']
    shown = work.run('fleet', '0008')
    proposal = work.results / 'proposals/drain-cluster-2026-11-29.txt'
    assert proposal.read_text() == (
        "scontrol update NodeName=n3 State=DRAIN Reason='plumbline 2026-11-29 STREAM triad "
        f"{again['loss']:.1f} % less, not for the first time'\n"
    )
    assert shown.exit_code == 1 and 'a proposal to drain 1 node; no node was drained' in shown.stdout
    (known,) = ledger.read_ledger(work.results, SITE)
    kept = [(entry.day, session, entry.bad) for session, entry in known.seen.items()]
    assert kept == [('2026-11-28', '0007', ('n3',)), ('2026-11-29', '0008', ('n3',))]


def test_a_slow_node_is_certain_where_one_of_its_metrics_has_a_baseline(work):
    work.reference(reference(metric='copy'))
    sessions(work, slow=lambda name, night: 0.7 if (name, night) == ('n3', 7) else 1, also=['copy'])
    (found,) = incidents(work)[1]
    assert (found['where'], found['state'], found['metrics']) == ('n3', 'open', 2)


def test_what_is_worse_than_a_stand_in_is_a_warning_in_the_table_of_verdicts(work, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    for first, nights in ((0, 6), (6, 1), (7, 1), (8, 1)):
        sessions(work, nights=nights, first=first, slow=lambda name, night: 0.9 if name == 'n3' and night > 5 else 1)
        work.run('compare')
    frame = postprocess.open_results(work.results).verdicts()
    slow = frame[frame['verdict'] == 'warning']
    assert [*zip(slow['session'], slow['nodes'], strict=True)] == [(f'000{night}', 'n3') for night in (6, 7, 8)]
    assert {*slow['stand_in']} == {'regressed'} and {*slow['kind']} == {'session'} and {*slow['gate']} == {''}
    assert slow['loss'].tolist() == pytest.approx([0.1] * 3, abs=0.01)
    others = frame.drop(slow.index)
    assert {*others['verdict']} == {'no_reference'} and {*others['stand_in']} == {'ok'}
    told = json.loads(work.run('compare', '--coverage', '--format', 'json').stdout)
    assert told['counts'] == {'no_reference': 1}, 'nothing is guarded by it'


def test_a_later_accusation_makes_the_verdicts_anew_that_rested_on_it(work, judgings):
    sessions(work, nights=6, slow=lambda name, night: 0.9 if name == 'n3' and night == 5 else 1)
    sessions(work, nights=1, first=6)
    store = Store(work.results)

    def judge(session):
        return verdicts_of(store, store.find(session), work.sites)

    judge('0006'), judge('0006')
    work.run('compare 0005')
    judge('0006'), judge('0006')
    assert judgings == ['0006', '0005', '0006']


@pytest.mark.parametrize(('left', 'state', 'bad', 'healthy'), [
    (1.0, 'closed', ['0006'], ['0007']), (0.9, 'open', ['0006', '0007', '0008'], []),
])  # fmt: skip
def test_later_sessions_tell_of_a_slow_node_that_a_late_session_shows(work, left, state, bad, healthy):
    def slow(name, night):
        return {6: 0.9, 7: left, 8: left}.get(night, 1) if name == 'n3' else 1

    sessions(work, nights=6)
    for night in (7, 8, 6):
        sessions(work, nights=1, first=night, slow=slow)
        work.run(f'compare 000{night}')
    (known,) = ledger.read_ledger(work.results, SITE)
    assert known.state('2026-11-29') == state
    assert [session for session, entry in known.seen.items() if 'n3' in entry.bad] == bad
    assert [session for session, entry in known.seen.items() if 'n3' in entry.healthy] == healthy


def test_a_loss_of_all_nodes_is_of_the_system_and_of_no_node(work):
    sessions(work, slow=lambda name, night: 0.93 if night == 7 else 1)
    assert incidents(work)[0] == [('SYSTEM', 'cpu/system')]
    assert not [*work.results.glob('proposals/drain-*')]


@pytest.mark.parametrize('nights', [1, 8])
def test_a_node_whose_governor_is_unlike_that_of_the_others(work, nights):
    def is_it(name, night):
        return (name, night) == ('n3', nights - 1)

    sessions(
        work, nights=nights, nodes=20, slow=lambda name, night: 0.7 if is_it(name, night) else 1,
        provenance=lambda name, night: {'governor': 'powersave' if is_it(name, night) else 'performance'},
    )  # fmt: skip
    scopes, (found,) = incidents(work, code=0)
    assert scopes == [('NODE', 'n3')]
    (said,) = found['changed']
    assert said in ('governor: performance -> powersave', 'governor: powersave, elsewhere performance')


@pytest.mark.parametrize(('is_slow', 'code', 'scope'), [
    (lambda pair: 'n3' in pair, 1, ('NODE', 'n3')),
    (lambda pair: {'n4', 'n5'} & pair, 1, ('FABRIC', 'switch s2')),
    (lambda pair: pair == {'n2', 'n5'}, 0, ('FABRIC', 'n2, n5')),
], ids=['a node', 'a switch', 'between two nodes'])  # fmt: skip
def test_slow_jobs_of_several_nodes_tell_of_what_they_share(work, is_slow, code, scope):
    places = ''.join(f'n{i},s{i // 2},c{i // 4}\n' for i in range(8))
    (work.sites / SITE / 'locations.csv').write_text(f'node,switch,chassis\n{places}')
    pairs = [(f'n{i}', f'n{j}') for i in range(8) for j in range(i + 1, 8)]
    sessions(work, jobs=pairs, slow=lambda name, night: 0.8 if night == 7 and is_slow({*name.split(',')}) else 1)
    assert incidents(work, code)[0] == [scope]


@pytest.mark.parametrize(('text', 'says'), [
    ('', '1: expected the columns node and at least one kind of place'),
    ('node,switch\nn1,s1\nn1,s2\n', '3: node n1: expected one row of 2 columns'),
])  # fmt: skip
def test_a_wrong_location_table_is_named(work, text, says):
    sessions(work, nights=1)
    path = work.sites / SITE / 'locations.csv'
    path.write_text(text)
    result = work.run('fleet')
    assert result.exit_code == 2 and f'{path}:{says}' in result.stderr


@pytest.mark.parametrize(('site', 'left', 'since', 'loss'), [
    ({'nodes': 24}, 0.96, 7, 4), ({}, 0.985, 7, None), ({'nodes': 3}, 0.5, 7, None),
    ({'nodes': 16, 'nights': 1}, 0.7, 0, 30), ({'nodes': 16}, 0.7, 0, 30),
], ids=['less than nodes differ', 'below the floor', 'few nodes', 'first night', 'always'])  # fmt: skip
def test_a_slow_node_is_found_by_what_it_was_or_where_it_is_far_behind_the_others(work, site, left, since, loss):
    """Nodes differ by up to 8 %, runs of a node by 0.3 %, sessions by 0.5 %. Fewer than four are not compared."""
    sessions(work, slow=lambda name, night: left if name == 'n2' and night >= since else 1, **site)
    found = incidents(work, code=0)[1]
    assert [one['where'] for one in found] == (['n2'] if loss else [])
    assert not loss or found[0]['loss'] == pytest.approx(loss, rel=0.25)


def test_each_node_is_judged_by_its_own_spread(work):
    """n0 varies by 4 %, the others by 0.3 %: 5 % less of it is usual, 4 % less of another node is not."""
    rng = numpy.random.default_rng(4)
    for night in range(13):
        values = 100 * numpy.exp(numpy.where(numpy.arange(16) == 0, 0.04, 0.003) * rng.standard_normal(16))
        if night == 12:
            values[[0, 5]] = 95, 96
        entries = on_nodes({f'n{i}': value for i, value in enumerate(values.tolist())})
        work.ingest(report(*entries, uuid=f'{night:08}', began=BEGAN + night * DAY))
    assert incidents(work, code=0)[0] == [('NODE', 'n5')]


def test_sessions_of_another_mode_do_not_stand_in(work):
    """A first month of quick sessions, at another level, and then nights."""
    sessions(work, nodes=8, nights=20, mode='quick', slow=lambda name, night: 0.8)
    sessions(work, nodes=8, nights=7, first=20, slow=lambda name, night: 0.9 if (name, night) == ('n3', 26) else 1)
    (found,) = incidents(work, code=0)[1]
    assert found['where'] == 'n3' and found['loss'] == pytest.approx(10, abs=2)


def test_what_an_incident_accuses_stands_in_for_nothing(work):
    """Slow in 6 of its first 11 sessions, and found in the first of them: they are not what it should be."""
    for first, nights in ((0, 5), *((night, 1) for night in range(5, 11))):
        sessions(
            work, nodes=8, nights=nights, first=first,
            slow=lambda name, night: 0.9 if name == 'n3' and night > 4 else 1,
        )  # fmt: skip
        work.run('compare')
    (found,) = incidents(work)[1]
    assert found['where'] == 'n3' and found['state'] == 'open' and found['loss'] == pytest.approx(10, abs=1)


# Equal parts of a node


def a_node(*parts, name='n1'):
    """Cases of one node, a value for each of its devices."""
    return [
        case('STREAM', f'device={i}', {'triad': metric([value] * 2)}, nodes=(name,), unique_name=f'{name}_{i}')
        for i, value in enumerate(parts)
    ]


def test_verdicts_of_past_sessions_follow_from_the_incidents_that_were_known_then(work, judgings):
    """So they are not judged again whenever another session is asked for."""
    for night in range(11):
        sessions(work, nights=1, first=night, slow=lambda name, night: 0.9 if name == 'n3' and night in (5, 6) else 1)
        assert work.run('compare').exit_code in (0, 1)
    judgings.clear()
    store = Store(work.results)
    for _ in range(2):
        judge_all(store, 'verdicts', store.sessions(SITE), work.sites)
        assert judgings == []
    assert work.run('compare', '0008').exit_code == 0 and judgings == []


def test_one_slow_device_of_a_node_is_found_on_the_first_day(work):
    """The GPU at 6.7 TFLOP/s beside seven at 19.2 that NVIDIA's diagnosis passed (NVIDIA/DCGM issue 122)."""
    work.ingest(report(*a_node(19.2, 19.1, 19.3, 6.7, 19.2, 19.2, 19.1, 19.2), uuid='a'))
    scopes, (found,) = incidents(work, code=0)
    assert [kind for kind, _ in scopes] == ['DEVICE'] and found['device'] == 'device 3'
    assert found['loss'] == pytest.approx(65, abs=1)


@pytest.mark.parametrize(('parts', 'found'), [
    ((19.2, 18.1, 19.3, 18.7, 19.2, 17.9, 19.1, 19.2), 0), ((100, 60), 1), ((100, 99), 0), ((80, 80.2, 80.1, 60.3), 1),
])  # fmt: skip
def test_parts_of_a_node_are_compared_with_each_other(work, parts, found):
    work.ingest(report(*a_node(*parts), uuid='a'))
    assert len(incidents(work, code=0)[0]) == found


@pytest.mark.parametrize('referenced', [False, True], ids=['no baseline', 'a wide baseline'])
def test_devices_of_many_nodes_are_compared_with_their_place_in_mind(work, referenced):
    """The first device is 10 % slower in every node, and the second of one node as slow as that."""
    if referenced:
        work.reference(*(reference(params=f'device={i}', mean=90 if i == 0 else 100, std=8, n=10) for i in range(4)))
    rng = numpy.random.default_rng(1)
    entries = []
    for i in range(16):
        values = 100 * numpy.exp(0.001 * rng.standard_normal(4)) * [0.9, 0.9 if i == 7 else 1, 1, 1]
        entries += a_node(*values.tolist(), name=f'n{i}')
    work.ingest(report(*entries, uuid='a'))
    (found,) = incidents(work, code=0)[1]
    assert (found['nodes'], found['device']) == (['n7'], 'device 1') and found['loss'] == pytest.approx(10, abs=0.5)


@each_row(('one', 'other', 'alike'), [
    (('device=0,model=cuda', ''), ('device=1,model=cuda', ''), True),
    (('layout=socket0', ''), ('layout=socket1', ''), True),
    (('layout=numa0', ''), ('layout=socket0', ''), False), (('layout=core', ''), ('layout=node', ''), False),
    (('-', 'device=0,kernel=copy'), ('-', 'device=1,kernel=copy'), True),
    (('-', 'device=0,kernel=copy'), ('-', 'device=1,kernel=triad'), False),
    (('-', 'message_bytes=0'), ('-', 'message_bytes=1'), False),
    (('link_class=A', 'pair=0-1'), ('link_class=A', 'pair=2-3'), True),
    (('link_class=A', 'pair=0-1'), ('link_class=B', 'pair=0-2'), False),
    (('-', 'pair=0-0'), ('-', 'pair=0-1'), False),  # near and far memory
    (('devices=0', ''), ('devices=1', ''), False),
])  # fmt: skip
def test_what_is_alike_in_a_node(one, other, alike):
    first, second = (
        part_of(SeriesId('cpu', 'system', 'STREAM', from_text(params), 'triad', from_text(dims)))
        for params, dims in (one, other)
    )
    assert (first is not None and second is not None and first[0] == second[0] and first[1] != second[1]) is alike


# What follows from slow and absent nodes


def test_the_commands_that_drain_are_written_in_the_order_of_the_nodes(work):
    sessions(work, nights=1)
    (session,), folder = Store(work.results).sessions(SITE), work.results
    assert write_drain(session, {}, folder) is None
    path = write_drain(session, {'n2': 'b', 'n1': 'a'}, folder)
    assert path == folder / f'proposals/drain-{SITE}-{session.day}.txt'
    assert path.read_text() == f'{drain("n1", "a")}\n{drain("n2", "b")}\n'
    assert drain('n3; rm -rf /', 'x') == "scontrol update NodeName='n3; rm -rf /' State=DRAIN Reason='plumbline x'"
