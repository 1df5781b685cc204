# SPDX-License-Identifier: BSD-3-Clause
"""A person corrects incidents: merged, split and dated ones stay so, night after night."""

import getpass
import json
import os

import duckdb
import pytest
from lxml import html
from run_reports import BEGAN, SITE, Workplace, all_nights_over, case, report
from simulated_site import DAY, METRICS, NODES, OSU, Site, slow_node
from test_incidents import failed

from plumbline.problems import Problem

WHY = ('--why', 'one DIMM')


@pytest.fixture(autouse=True)
def admin(monkeypatch):
    """Who corrects, and when: the day is that of the fixture `later`."""
    monkeypatch.setattr(getpass, 'getuser', lambda: 'admin')


def two_slow(check, node, device):
    return {'n3': 0.8, 'n9': 0.7}.get(node, 1.0) if check == 'STREAM' else 1.0


def slow_checks(check, node, device):
    return 0.9 if check in OSU else 1.0


def slow_stream(level):
    return lambda check, node, device: level if check == 'STREAM' else 1.0


def files(site):
    return {path.name: path.read_text() for path in (site.work.results / 'incidents' / SITE).iterdir()}


def correct(site, *words, code=0):
    """What `plumbline incidents` prints for a correction."""
    result = site.work.run('incidents', *words)
    assert result.exit_code == code, result.output
    return result.stdout if not code else result.stderr


def shown(site, id):
    return json.loads(site.work.run('incidents show', id, '--format', 'json').stdout)


def by_place(found):
    return {one['where']: one for one in found}


@pytest.fixture(scope='module')
def two_incidents(ordinary, tmp_path_factory):
    """A site of which two nodes are slow, and the ids of their incidents."""
    site = Site(Workplace(tmp_path_factory.mktemp('pair')))
    site.take(ordinary)
    with all_nights_over():
        site.run(two_slow)
        found = by_place(site.judged(1))
    assert set(found) == {'n3', 'n9'}
    return site, found['n3']['id'], found['n9']['id']


@pytest.fixture
def pair(young, two_incidents):
    """A site of which two nodes are slow, an incident each: of n3 and of n9."""
    other, *ids = two_incidents
    young.take(other)
    return young, *ids


# Merge


def test_merged_incidents_stay_one_over_the_nights(pair):
    site, first, second = pair
    said = correct(site, 'merge', first, second, *WHY)
    assert said.startswith(f'{first} holds {second}, too: NODE n3, n9: ')
    assert list(files(site)) == [f'{first}.json']
    for night, level in enumerate((two_slow, two_slow, slow_node(0.8), two_slow)):
        for _ in range(2):  # a session is judged again and again
            site.work.compare()
        (one,) = site.judged(1)
        assert (one['id'], one['state'], one['holds']) == (first, 'open', [second])
        assert one['nodes'] == ['n3', 'n9'] or night == 3
        assert list(files(site)) == [f'{first}.json']
        site.run(level)
    (one,) = site.judged(1)
    assert one['id'] == first and one['sessions'] == 5 and one['state'] == 'intermittent', 'n9 was healthy once'
    values = json.loads(files(site)[f'{first}.json'])
    assert values['seen'] and {tuple(seen['bad']) for seen in values['seen'].values()} == {('n3', 'n9'), ('n3',)}


def test_a_merged_incident_is_closed_when_all_of_it_is(pair):
    site, first, second = pair
    correct(site, 'merge', second, first, *WHY)
    site.run(slow_node(0.8))
    site.judged(1)
    for _ in range(3):  # n3 was bad in two of two, which four healthy ones close, n9 in one of one: five
        site.run()
        (one,) = site.judged(0)
        assert (one['id'], one['state']) == (second, 'healing')
    site.run()
    assert site.judged(0)[0]['state'] == 'closed'
    site.run(two_slow)
    assert {tuple(one['before']) for one in site.judged(1)} == {(second,)}


def test_merged_losses_are_told_together_and_the_row_names_the_incident(pair):
    site, first, second = pair
    correct(site, 'merge', first, second, *WHY)
    site.run(two_slow)
    document = site.work.compare()
    (one,) = document['incidents']
    bad = [row for row in document['verdicts'] if row['verdict'] == 'regressed']
    assert {row['incident'] for row in bad} == {first} and len(bad) == 2 * METRICS
    assert one['metrics'] == METRICS and one['checks'] == ['STREAM']
    with duckdb.connect(config={}) as connection:
        folder = str(site.work.results / 'store')
        (low, high) = connection.execute(
            """
            SELECT min(lost), max(lost) FROM (
                SELECT nodes[1] AS node, 100 - avg(mean) AS lost
                FROM read_parquet($folder || '/metrics/**/*.parquet', hive_partitioning=false) AS metrics
                JOIN read_parquet($folder || '/cases/**/*.parquet', hive_partitioning=false) AS cases
                    USING (session, case_id)
                WHERE session = $session AND "check" = 'STREAM' AND nodes[1] IN ('n3', 'n9') GROUP BY ALL)
            """,
            {'folder': folder, 'session': document['session']},
        ).fetchone()
    assert low - 0.5 < one['loss'] < high + 0.5


def test_what_of_other_places_is_merged_is_of_what_they_share(site):
    """The loss of six checks of an environ, and that of a node in STREAM."""

    def both(check, node, device):
        return min(slow_checks(check, node, device), slow_node(0.8)(check, node, device))

    site.run(both)
    found = by_place(site.judged(1))
    correct(site, 'merge', found['cpu/other']['id'], found['n3']['id'], *WHY)
    ids = set()
    for level in (both, both, slow_checks, slow_node(0.8)):
        site.run(level)
        (one,) = site.judged(1)
        ids.add(one['id'])
        assert (one['kind'], one['where']) == ('SYSTEM', 'cpu')
        assert one['checks'] == sorted([*OSU, 'STREAM'])
    assert ids == {found['cpu/other']['id']}


def test_each_output_tells_who_merged_when_and_why(pair, tmp_path):
    site, first, second = pair
    before = shown(site, second)
    correct(site, 'merge', first, second, *WHY)
    said = f'merged on 2050-01-01 by admin with {second} (NODE n9: {before["what"]}): one DIMM'
    document = shown(site, first)
    assert document['corrected'] == [said]
    (done,) = document['corrections']
    assert (done['what'], done['by'], done['day'], done['why']) == ('merged', 'admin', '2050-01-01', 'one DIMM')
    assert [(was['id'], was['day']) for was in done['before']] == [(first, '2026-11-26'), (second, '2026-11-26')]
    assert shown(site, second)['id'] == first, 'its old id still finds it'
    for text in (site.work.run('incidents show', first).stdout, site.work.run('compare', '--format=markdown').stdout):
        assert said in ' '.join(text.replace('\\', '').split())
    assert site.work.compare()['incidents'][0]['corrected'] == [said]
    site.work.run('report')
    card = html.parse(str(site.work.results / 'report.html')).getroot().get_element_by_id(f'i{first}')
    assert said in ' '.join(card.text_content().split())
    site.work.run('publish', tmp_path / 'site')
    data = (tmp_path / 'site' / SITE / 'data/site.js').read_text()
    assert said in json.loads(data.removeprefix('plumbline(').removesuffix(')\n'))['incidents'][first]['corrected']


def test_an_address_of_a_merged_incident_says_where_it_is(pair, tmp_path):
    site, first, second = pair
    site.work.run('publish', tmp_path / 'site')
    correct(site, 'merge', first, second, *WHY)
    site.work.run('publish', tmp_path / 'site')
    data = (tmp_path / 'site' / SITE / 'data/site.js').read_text()
    found = json.loads(data.removeprefix('plumbline(').removesuffix(')\n'))['incidents']
    assert (found[second]['state'], found[second]['since']) == ('closed', f'is part of {first}')


def test_a_crash_between_the_files_of_a_merge_loses_none(pair, monkeypatch):
    site, first, second = pair
    with monkeypatch.context() as patch:
        patch.setattr(os, 'unlink', fails)
        patch.setattr('pathlib.Path.unlink', fails)
        result = site.work.run('incidents merge', first, second, *WHY)
    assert result.exit_code == 2
    assert set(files(site)) == {f'{first}.json', f'{second}.json'}
    listed = json.loads(site.work.run('incidents', '--format', 'json').stdout)
    assert [(one['id'], one['holds']) for one in listed] == [(first, [second])]
    site.run(two_slow)
    assert [one['id'] for one in site.judged(1)] == [first]
    assert list(files(site)) == [f'{first}.json'], 'the next night removes what was left'


def fails(*_, **__):
    raise OSError(5, 'the disk is gone', 'x.json')


def test_what_was_acknowledged_of_all_parts_stays_acknowledged(pair):
    site, first, second = pair
    for id, until in ((first, '2026-12-24'), (second, '2026-12-20')):
        correct(site, 'acknowledge', id, '--why', f'fan {id}', '--until', until)
    correct(site, 'merge', first, second, *WHY)
    for _ in range(2):
        site.run(two_slow)
        (one,) = site.judged(0)
        assert (one['state'], one['acknowledged_until']) == ('acknowledged', '2026-12-20')
        assert one['acknowledged_why'] == f'fan {first}; fan {second}'


def test_what_was_acknowledged_of_one_part_alone_is_open(pair):
    site, first, second = pair
    correct(site, 'acknowledge', first, '--why', 'fan', '--until', '2026-12-24')
    correct(site, 'merge', first, second, *WHY)
    assert site.judged(1)[0]['state'] == 'open'


def merged_with_late(site, found, late):
    """Merge the incidents of n3 and n9, then ingest a late session in which both are slow; the incident there."""
    correct(site, 'merge', found['n3']['id'], found['n9']['id'], *WHY)
    site.work.ingest(late)
    uuid = late['session_info']['uuid']
    (then,) = site.work.compare(uuid)['incidents']
    assert then['id'] == found['n3']['id'] and then['nodes'] == ['n3', 'n9']
    assert json.loads(files(site)[f'{then["id"]}.json'])['seen'][uuid]['bad'] == ['n3', 'n9']
    assert len(files(site)) == 1
    return then


def test_a_late_session_enters_both_parts_of_a_merged_incident(site):
    site.run(two_slow)
    late = site.content(two_slow)
    site.run(two_slow)
    found = by_place(site.judged(1))
    then = merged_with_late(site, found, late)
    for _ in range(2):
        site.run(two_slow)
        assert [one['id'] for one in site.judged(1)] == [then['id']]


def test_a_late_session_before_all_others_belongs_to_the_merged_incident(site):
    late = site.content(two_slow)
    site.run(two_slow)
    found = by_place(site.judged(1))
    merged_with_late(site, found, late)


# Split


def test_split_checks_stay_apart_over_the_nights(site):
    site.run(slow_checks)
    (one,) = site.judged(1)
    said = correct(site, 'split', one['id'], '--case', 'OsuBarrier', '--why', 'another library')
    (new,) = set(re_ids(said)) - {one['id']}
    wanted = {one['id']: sorted(set(OSU) - {'OsuBarrier'}), new: ['OsuBarrier']}
    for _ in range(2):
        document = site.work.compare()
        found = {one['id']: one for one in document['incidents']}
        assert {id: one['checks'] for id, one in found.items()} == wanted
        assert {one['state'] for one in found.values()} == {'open'}
        assert {one['since'] for one in found.values()} == {'2026-11-26'}
        assert found[new]['metrics'] == METRICS and found[new]['loss'] == pytest.approx(10, abs=1)
        bad = [row for row in document['verdicts'] if row['verdict'] == 'regressed']
        assert {(row['check'] == 'OsuBarrier', row['incident']) for row in bad} == {(True, new), (False, one['id'])}
        for id, own in found.items():
            checks = {line.split()[0] for line in own['evidence'] if 'expected' in line}
            assert checks <= set(wanted[id]), 'the evidence is of its own series'
        site.run(slow_checks)
    assert {one['sessions'] for one in site.judged(1)} == {3}
    site.run(lambda check, node, device: 0.9 if check == 'OsuBarrier' else 1.0)
    found = {one['id']: one['state'] for one in site.judged(1)}
    assert found == {one['id']: 'healing', new: 'open'}
    site.run(slow_checks)
    assert {one['id'] for one in site.judged(1)} == {one['id'], new}


def re_ids(said):
    return [line.split()[0] for line in said.splitlines()]


def test_split_metrics_stay_apart(site):
    site.run(slow_checks)
    (one,) = site.judged(1)
    said = correct(site, 'split', one['id'], '--metric', 'm[01]', *WHY)
    new, rest = re_ids(said)
    assert rest == one['id']
    for _ in range(2):
        document = site.work.compare()
        found = {one['id']: one['metrics'] for one in document['incidents']}
        assert found == {new: 2 * len(OSU), rest: 3 * len(OSU)}
        site.run(slow_checks)


def test_a_node_that_is_split_from_a_system_stays_apart(site):
    """STREAM is slow on all nodes; one of them, a person says, has a cause of its own."""
    all_slow = slow_stream(0.9)
    site.run(all_slow)
    (one,) = site.judged(1)
    assert (one['kind'], len(one['nodes'])) == ('SYSTEM', 16)
    new, rest = re_ids(correct(site, 'split', one['id'], '--node', 'n3', *WHY))
    for _ in range(2):
        found = {one['id']: one for one in site.judged(1)}
        assert set(found) == {new, rest}
        assert (found[new]['kind'], found[new]['where'], found[new]['nodes']) == ('NODE', 'n3', ['n3'])
        assert found[rest]['kind'] == 'SYSTEM' and found[rest]['nodes'] == [node for node in NODES if node != 'n3']
        site.run(all_slow)
    site.run(slow_node(0.75))
    assert {one['id']: one['state'] for one in site.judged(1)} == {new: 'open', rest: 'healing'}
    site.run(all_slow)
    assert {one['id']: one['state'] for one in site.judged(1)} == {new: 'open', rest: 'intermittent'}


def test_a_node_is_split_from_two_whose_jobs_failed(site):
    dead = {node: failed(node, 'lost') for node in ('n4', 'n5')}
    site.run(replaced=dead)
    (one,) = site.judged(1)
    new, rest = re_ids(correct(site, 'split', one['id'], '--node', 'n5', *WHY))
    for _ in range(2):
        assert {one['id']: one['nodes'] for one in site.judged(1)} == {new: ['n5'], rest: ['n4']}
        site.run(replaced=dead)
    site.run(replaced={'n4': dead['n4']})
    assert {one['id']: one['state'] for one in site.judged(1)} == {new: 'healing', rest: 'open'}


def test_each_output_tells_who_split_when_and_why(site):
    site.run(slow_checks)
    (one,) = site.judged(1)
    new, rest = re_ids(correct(site, 'split', one['id'], '--case', 'OsuB*', '--metric', 'm1', '--why', 'a library'))
    by = 'split on 2050-01-01 by admin'
    assert shown(site, new)['corrected'] == [f'{by} from {rest}, case OsuB*, metric m1: a library']
    assert shown(site, rest)['corrected'] == [f'{by}, case OsuB*, metric m1 is {new}: a library']
    (was,) = shown(site, rest)['corrections'][0]['before']
    assert was['said'] == f'{one["kind"]} {one["where"]}: {one["what"]}'


def test_a_crash_between_the_files_of_a_split_leaves_the_whole(site, monkeypatch):
    site.run(slow_checks)
    (one,) = site.judged(1)
    import postprocess.incidents.ledger as ledger

    first = ledger.write_text
    with monkeypatch.context() as patch:
        patch.setattr(ledger, 'write_text', lambda path, text: (first(path, text), fails()))
        assert site.work.run('incidents split', one['id'], '--case', 'OsuBarrier', *WHY).exit_code == 2
    assert len(files(site)) == 2
    (still,) = site.judged(1)
    assert (still['id'], still['checks']) == (one['id'], sorted(OSU))
    correct(site, 'split', one['id'], '--case', 'OsuBarrier', *WHY)
    assert len(files(site)) == 2 and len(site.judged(1)) == 2


def test_a_split_part_began_when_its_own_series_fell(site):
    """Five checks of an environ are slow since three nights, the sixth since one; one incident holds all."""
    for checks in (OSU[:5], OSU[:5], OSU):
        site.run(lambda check, node, device, slow=checks: 0.9 if check in slow else 1.0)
        found = site.judged(1)
    (one,) = found
    assert (one['since'], one['checks']) == ('2026-11-26', sorted(OSU))
    new, rest = re_ids(correct(site, 'split', one['id'], '--case', OSU[5], *WHY))
    assert (shown(site, new)['since'], shown(site, rest)['since']) == ('2026-11-28', '2026-11-26')
    assert (shown(site, new)['sessions'], shown(site, rest)['sessions']) == (1, 3)
    for _ in range(2):
        site.run(slow_checks)
        assert {one['id']: one['since'] for one in site.judged(1)} == {new: '2026-11-28', rest: '2026-11-26'}


@pytest.mark.parametrize('nights', [1, 0])
def test_a_late_session_enters_both_parts_of_a_split_incident(site, nights):
    """It is between others, or before all that show it."""
    for _ in range(nights):
        site.run(slow_checks)
        site.work.compare()
    late = site.content(slow_checks)
    site.run(slow_checks)
    (one,) = site.judged(1)
    new, rest = re_ids(correct(site, 'split', one['id'], '--case', 'OsuBarrier', *WHY))
    site.work.ingest(late)
    uuid = late['session_info']['uuid']
    assert {one['id'] for one in site.work.compare(uuid)['incidents']} == {new, rest}
    assert set(files(site)) == {f'{new}.json', f'{rest}.json'}
    assert all(json.loads(text)['seen'][uuid]['bad'] == [''] for text in files(site).values())
    for _ in range(2):
        found = {one['id']: one['checks'] for one in site.judged(1)}
        assert found == {new: ['OsuBarrier'], rest: sorted(set(OSU) - {'OsuBarrier'})}
        site.run(slow_checks)


def test_a_merged_incident_is_split_again(pair):
    site, first, second = pair
    correct(site, 'merge', first, second, *WHY)
    new, rest = re_ids(correct(site, 'split', first, '--node', 'n9', '--why', 'not so'))
    assert rest == first
    for _ in range(2):
        assert {one['id']: one['nodes'] for one in site.judged(1)} == {new: ['n9'], first: ['n3']}
        site.run(two_slow)
    correct(site, 'merge', new, first, '--why', 'and yet')
    for _ in range(2):
        assert [(one['id'], one['nodes']) for one in site.judged(1)] == [(new, ['n3', 'n9'])]
        site.run(two_slow)


# Date


def test_a_date_stays_over_the_nights(site):
    site.run(two_slow)
    one = by_place(site.judged(1))['n3']
    said = correct(site, 'date', one['id'], '2026-11-24', '--why', 'the log has it')
    assert said.startswith(f'{one["id"]} in 3 sessions since 2026-11-24: NODE n3: ')
    for number in range(2):
        found = by_place(site.judged(1))
        assert (found['n3']['id'], found['n3']['since'], found['n3']['sessions']) == (
            one['id'],
            '2026-11-24',
            3 + number,
        )
        assert found['n3']['session'] == '00000003' and found['n9']['since'] == '2026-11-26'
        site.run(two_slow)
    document = shown(site, one['id'])
    assert document['corrected'] == ['dated on 2050-01-01 by admin, before: since 2026-11-26: the log has it']
    assert document['corrections'][0]['before'][0]['session'] == '00000005'


def test_a_session_that_is_late_does_not_change_the_date(site):
    late = site.content(two_slow)
    site.run(two_slow)
    one = by_place(site.judged(1))['n3']
    correct(site, 'date', one['id'], '00000006', '--why', 'the log has it')
    site.work.ingest(late)
    then = by_place(site.work.compare('00000005')['incidents'])
    assert then['n3']['id'] == one['id']
    assert shown(site, one['id'])['since'] == '2026-11-27'
    for _ in range(2):
        site.run(two_slow)
        assert by_place(site.judged(1))['n3']['since'] == '2026-11-27'


def test_what_changed_is_looked_for_on_the_day_that_a_person_gave(site):
    """A kernel came two nights before the incident was found."""
    for night in range(3):
        site.run(slow_stream(0.8 if night == 2 else 1.0), lambda check: {'kernel': '6.5'})
    (one,) = site.judged(1)
    assert (one['since'], one['kind'], one['changed']) == ('2026-11-28', 'SYSTEM', [])
    correct(site, 'date', one['id'], '2026-11-26', '--why', 'users told us')
    (was,) = shown(site, one['id'])['corrections'][0]['before']
    assert (was['day'], was['changed']) == ('2026-11-28', [])
    for _ in range(2):
        (one,) = site.judged(1)
        found = one['since'], one['kind'], one['changed']
        assert found == ('2026-11-26', 'SOFTWARE', ['kernel: 6.1 -> 6.5'])
        site.run(slow_stream(0.8), lambda check: {'kernel': '6.5'})


def test_a_dated_part_and_a_dated_whole_keep_their_dates(pair):
    site, first, second = pair
    correct(site, 'date', first, '2026-11-23', *WHY)
    correct(site, 'merge', second, first, *WHY)
    for _ in range(2):
        (one,) = site.judged(1)
        assert one['since'] == '2026-11-23'
        site.run(two_slow)
    correct(site, 'date', second, '2026-11-25', *WHY)
    for _ in range(2):
        (one,) = site.judged(1)
        assert one['since'] == '2026-11-25'
        site.run(two_slow)
    new, rest = re_ids(correct(site, 'split', second, '--node', 'n3', *WHY))
    site.run(two_slow)
    assert {one['id']: one['since'] for one in site.judged(1)} == {new: '2026-11-25', rest: '2026-11-25'}


# What cannot be corrected


@pytest.mark.parametrize(
    ('words', 'says'),
    [
        (('merge', '<n3>', *WHY), 'expected at least two different incidents'),
        (('merge', '<n3>', '<n3>', *WHY), 'expected at least two different incidents'),
        (('merge', '<n3>', 'ffffff', *WHY), "no incident has the id 'ffffff'"),
        (('merge', '<n3>', '', *WHY), "no incident has the id ''"),
        (('merge', '<n3>', '<n9>', '--why', ' '), '--why: expected a reason'),
        (('merge', '<n3>', '<n7>', *WHY), 'is a loss of performance, '),
        (('merge', '<n3>', '<over>', *WHY), 'was closed on 2026-11-'),
        (('split', '<n3>', *WHY), 'expected --case or --metric or both, or --node alone'),
        (('split', '<n3>', '--node', 'n3', '--case', 'x', *WHY), 'or both, or --node alone'),
        (('split', '<n3>', '--node', 'n3', *WHY), 'node n3 takes all of incident '),
        (('split', '<n3>', '--case', 'STREAM', *WHY), 'case STREAM takes all of incident '),
        (('split', '<n3>', '--metric', 'x*', *WHY), 'expected a part of m0, m1, m2, m3, m4'),
        (('split', '<n3>', '--case', 'HPL', *WHY), 'expected a part of cpu/system STREAM size=big'),
        (('split', '<n3>', '--node', 'n4', *WHY), 'node n4 takes nothing of incident '),
        (('split', '<over>', '--metric', 'm1', *WHY), 'only those that last'),
        (('date', '<n3>', '2026-12-30', *WHY), 'DAY: 2026-12-30 is after the last session of the store'),
        (('date', '<n3>', '2026-11-28', *WHY), 'is after 2026-11-27, when a session showed incident '),
        (('date', '<n3>', '2026-11-20', *WHY), 'is before the first session of the store, which was on 2026-11-21'),
        (('date', '<n3>', 'soon', *WHY), "or the beginning of the uuid of a session; 'soon' is neither"),
        (('date', '<n3>', '0000', *WHY), "'0000' is the beginning of several"),
        (('date', '<n3>', '2026-11-22', '--why', ''), '--why: expected a reason'),
    ],
)  # fmt: skip
def test_a_wrong_correction_is_one_sentence_and_changes_nothing(wrong, words, says):
    site, ids = wrong
    before = files(site)
    said = correct(site, *(ids.get(word, word) for word in words), code=2)
    assert says in said and said.count('\n') == 1
    assert files(site) == before


@pytest.fixture(scope='module')
def wrong(ordinary, tmp_path_factory):
    """A site with losses of n3 and n9, failed jobs of n7, and a closed problem of a session; their ids by place."""
    site = Site(Workplace(tmp_path_factory.mktemp('wrong')))
    site.take(ordinary)
    with all_nights_over():
        site.run(problem=Problem('ReFrame was killed'))
        (over,) = site.judged(1)
        for _ in range(2):
            site.run(two_slow, replaced={'n7': failed('n7', 'lost')})
            incidents = by_place(site.judged(1))
    return site, {f'<{place}>': incidents[place]['id'] for place in ('n3', 'n9', 'n7')} | {'<over>': over['id']}


def test_an_id_that_is_not_one_incident_is_one_sentence(pair):
    site, first, second = pair
    values = json.loads(files(site)[f'{second}.json']) | {'id': f'{first[:4]}zz'}
    (site.work.results / 'incidents' / SITE / f'{second}.json').rename(
        path := site.work.results / 'incidents' / SITE / f'{first[:4]}zz.json'
    )
    del values['digest']  # of the other id
    path.write_text(json.dumps(values))
    before = files(site)
    for words in (
        ('merge', first, first[:4]),
        ('split', first[:4], '--metric', 'm1'),
        ('date', first[:4], '2026-11-22'),
    ):
        said = correct(site, *words, *WHY, code=2)
        assert f'{first[:4]!r} is the beginning of several incidents' in said and said.count('\n') == 1
    assert files(site) == before


def test_incidents_of_two_sites_are_not_merged(pair):
    site, first, _ = pair
    work, other = site.work, site.work.sites / 'other'
    other.mkdir()
    (other / 'site.yaml').write_text((work.sites / SITE / 'site.yaml').read_text())
    work.ingest(report(case(site='other', result='fail', fail_phase='sanity'), uuid='eeee', began=BEGAN + 9 * DAY))
    (theirs,) = work.compare('eeee')['incidents']
    said = correct(site, 'merge', first, theirs['id'], *WHY, code=2)
    assert f'incident {first} is of site {SITE}, {theirs["id"]} of other' in said and said.count('\n') == 1
    assert len(files(site)) == 2


def test_a_file_without_a_correction_says_nothing_of_any(pair):
    site, first, _ = pair
    values = json.loads(files(site)[f'{first}.json'])
    assert set(values) == {'digest', 'schema', 'id', 'incident', 'seen', 'acknowledged', 'closes_after'}
