# SPDX-License-Identifier: BSD-3-Clause
"""A person corrects incidents: merged, split and dated ones stay so, night after night."""

import json
from types import SimpleNamespace

import pytest
from lxml import html
from run_reports import BEGAN, DAY, SITE, Workplace, all_nights_over, case, report
from simulated_site import METRICS, NODES, OSU, Site, slow_node
from test_incidents import failed, ladder

from plumbline.problems import Problem
from postprocess.incidents.ledger import Ledger
from postprocess.results.store import Store

WHY = ('--why', 'one DIMM')


@pytest.fixture(autouse=True)
def admin(monkeypatch):
    """Who corrects, and when: the day is that of the fixture `later`."""
    monkeypatch.setenv('LOGNAME', 'admin')


def two_slow(check, node, device):
    return {'n3': 0.8, 'n9': 0.7}.get(node, 1.0) if check == 'STREAM' else 1.0


def slow_checks(check, node, device):
    return 0.9 if check in OSU else 1.0


def slow_stream(level):
    return lambda check, node, device: level if check == 'STREAM' else 1.0


def notes_of(site):
    """The lines that persons wrote."""
    path = site.work.results / f'incidents/{SITE}.jsonl'
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def listed(site):
    """The ids of the incidents of the ledger."""
    return {one['id'] for one in json.loads(site.work.run('incidents --format json').stdout)}


def correct(site, *words, code=0):
    """What `plumbline incidents` prints for a correction."""
    result = site.work.run('incidents', *words)
    assert result.exit_code == code, result.output
    return result.stdout if not code else result.stderr


def by_place(found):
    return {one['where']: one for one in found}


@pytest.fixture(scope='module')
def two_incidents(ordinary, tmp_path_factory):
    site = Site(Workplace(tmp_path_factory.mktemp('pair')))
    site.take(ordinary)
    with all_nights_over():
        site.run(two_slow)
        found = by_place(site.judged(1))
    assert set(found) == {'n3', 'n9'}
    return site, found['n3']['id'], found['n9']['id']


@pytest.fixture
def pair(young, two_incidents):
    """A site of which two nodes are slow, and the ids of the incidents of n3 and of n9."""
    other, *ids = two_incidents
    young.take(other)
    return young, *ids


# Merge


def test_merged_incidents_stay_one_over_the_nights(pair):
    site, first, second = pair
    said = correct(site, 'merge', first, second, *WHY)
    assert said.startswith(f'{first} holds {second}, too: NODE n3, n9: ')
    assert listed(site) == {first}
    for level in (slow_node(0.8), two_slow):
        site.judged(1)  # a session is judged again
        (one,) = site.judged(1)
        assert (one['id'], one['state'], one['holds']) == (first, 'open', [second])
        assert listed(site) == {first}
        site.run(level)
    document = site.work.compare()
    (one,) = document['incidents']
    assert one['id'] == first and one['sessions'] == 3 and one['state'] == 'intermittent', 'n9 was healthy once'
    assert {row['incident'] for row in document['verdicts'] if row['verdict'] == 'regressed'} == {first}
    assert one['metrics'] == METRICS and 19.5 < one['loss'] < 30.5, 'n3 lost 20 %, n9 30 %'
    assert {tuple(seen['bad']) for seen in site.work.shown(first)['seen'].values()} == {('n3', 'n9'), ('n3',)}


def test_each_output_tells_who_merged_when_and_why_and_where_the_part_is(pair):
    site, first, second = pair
    correct(site, 'merge', first, second, *WHY)
    document = site.work.shown(first)
    (done,), (said,) = document['corrections'], document['corrected']
    assert (done['what'], done['by'], done['day'], done['why']) == ('merged', 'admin', '2050-01-01', 'one DIMM')
    assert (done['ids'], done['says']) == ([first, second], said)
    assert all(word in said for word in ('merged', 'admin', '2050-01-01', 'one DIMM', second))
    assert site.work.shown(second)['id'] == first, 'its old id still finds it'
    site.work.run('report')
    card = html.parse(str(site.work.results / 'report.html')).getroot().get_element_by_id(f'i{first}')
    texts = [site.work.run('incidents show', first).stdout, site.work.run('compare', '--format=markdown').stdout]
    for text in (*texts, card.text_content()):
        assert said in ' '.join(text.replace('\\', '').split())


@pytest.mark.parametrize(('written', 'notes'), [(1, ['acknowledged']), (-2, ['acknowledged']), (-1, ['merged'])])
def test_a_writer_that_is_killed_leaves_a_whole_note_or_none(pair, written, notes):
    """The next note stands behind what is whole; a line without its end is whole."""
    site, first, second = pair
    correct(site, 'merge', first, second, *WHY)
    path = site.work.results / f'incidents/{SITE}.jsonl'
    path.write_bytes(path.read_bytes()[:written])
    assert listed(site) == ({first} if 'merged' in notes else {first, second})
    correct(site, 'acknowledge', first, '--why', 'fan', '--until', '2026-12-24')
    assert [note['what'] for note in notes_of(site)] == [*dict.fromkeys([*notes, 'acknowledged'])]


def test_a_note_on_what_does_not_exist_is_named(site):
    site.run(two_slow)
    id = by_place(site.judged(1))['n3']['id']
    correct(site, 'acknowledge', id, '--why', 'fan', '--until', '2026-12-24')
    assert site.work.run('store check').exit_code == 0
    assert site.work.run('store forget 00000005 --why trial').exit_code == 0
    told = site.work.run('store check')
    assert told.exit_code == 1 and f'no incident has the id {id}, which was acknowledged' in told.stdout


def test_a_flipped_bit_of_a_note_is_named(pair):
    site, first, second = pair
    correct(site, 'merge', first, second, *WHY)
    path = site.work.results / f'incidents/{SITE}.jsonl'
    line = path.read_bytes()
    for place in range(0, len(line) - 1, 31):
        path.write_bytes(line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :])
        result = site.work.run('incidents')
        assert result.exit_code == 2 and f'{path}: line 1 is not a note on incidents' in result.stderr
        assert str(path) in site.work.run('store check').stdout
        assert site.work.run('incidents close', first, '--why', 'x').exit_code == 2
        assert len(path.read_bytes()) == len(line)


def test_what_was_acknowledged_of_all_parts_stays_acknowledged(pair):
    site, first, second = pair
    for id, until in ((first, '2026-12-24'), (second, '2026-12-20')):
        correct(site, 'acknowledge', id, '--why', f'fan {id}', '--until', until)
    correct(site, 'merge', first, second, *WHY)
    site.run(two_slow)
    (one,) = site.judged(0)
    assert (one['state'], one['acknowledged_until']) == ('acknowledged', '2026-12-20')
    assert one['acknowledged_why'] == f'fan {first}; fan {second}'


# Split


def ids_in(said):
    """The ids of the new incident and of the rest, each the first word of a line."""
    return [line.split()[0] for line in said.splitlines()]


def test_split_checks_stay_apart_over_the_nights(site):
    site.run(slow_checks)
    (one,) = site.judged(1)
    said = correct(site, 'split', one['id'], '--case', 'OsuBarrier', '--why', 'another library')
    new, _ = ids_in(said)
    by = 'split on 2050-01-01 by admin'
    assert site.work.shown(new)['corrected'] == [f'{by} from {one["id"]}, case OsuBarrier: another library']
    assert site.work.shown(one['id'])['corrected'] == [f'{by}, case OsuBarrier is {new}: another library']
    wanted = {one['id']: sorted(set(OSU) - {'OsuBarrier'}), new: ['OsuBarrier']}
    for _ in range(2):
        document = site.work.compare()
        found = {one['id']: one for one in document['incidents']}
        assert {id: one['checks'] for id, one in found.items()} == wanted
        assert {(one['state'], one['since']) for one in found.values()} == {('open', '2026-11-26')}
        assert found[new]['metrics'] == METRICS and found[new]['loss'] == pytest.approx(10, abs=1)
        bad = [row for row in document['verdicts'] if row['verdict'] == 'regressed']
        assert {(row['check'] == 'OsuBarrier', row['incident']) for row in bad} == {(True, new), (False, one['id'])}
        for id, own in found.items():
            checks = {line.split()[0] for line in own['evidence'] if 'expected' in line}
            assert checks <= set(wanted[id]), 'the evidence is of its own series'
        site.run(slow_checks)
    site.run(lambda check, node, device: 0.9 if check == 'OsuBarrier' else 1.0)
    found = {one['id']: one['state'] for one in site.judged(1)}
    assert found == {one['id']: 'healing', new: 'open'}


def test_a_node_that_is_split_from_a_system_stays_apart(site):
    """STREAM is slow on all nodes; one of them, a person says, has a cause of its own."""
    all_slow = slow_stream(0.9)
    site.run(all_slow)
    (one,) = site.judged(1)
    assert (one['kind'], len(one['nodes'])) == ('SYSTEM', 16)
    new, rest = ids_in(correct(site, 'split', one['id'], '--node', 'n3', *WHY))
    for _ in range(2):
        found = {one['id']: one for one in site.judged(1)}
        assert set(found) == {new, rest}
        assert (found[new]['kind'], found[new]['where'], found[new]['nodes']) == ('NODE', 'n3', ['n3'])
        assert found[rest]['kind'] == 'SYSTEM' and found[rest]['nodes'] == [node for node in NODES if node != 'n3']
        site.run(all_slow)
    site.run(slow_node(0.75))
    assert {one['id']: one['state'] for one in site.judged(1)} == {new: 'open', rest: 'healing'}


def test_a_node_is_split_from_two_whose_jobs_failed(site):
    dead = {node: failed(node, 'lost') for node in ('n4', 'n5')}
    site.run(replaced=dead)
    (one,) = site.judged(1)
    new, rest = ids_in(correct(site, 'split', one['id'], '--node', 'n5', *WHY))
    site.run(replaced=dead)
    assert {one['id']: one['nodes'] for one in site.judged(1)} == {new: ['n5'], rest: ['n4']}
    site.run(replaced={'n4': dead['n4']})
    assert {one['id']: one['state'] for one in site.judged(1)} == {new: 'healing', rest: 'open'}


def test_a_split_part_began_when_its_own_series_fell(site):
    """Five checks of an environ are slow since three nights, the sixth since one; one incident holds all."""
    for checks in (OSU[:5], OSU[:5], OSU):
        site.run(lambda check, node, device, slow=checks: 0.9 if check in slow else 1.0)
        found = site.judged(1)
    (one,) = found
    assert (one['since'], one['checks']) == ('2026-11-26', sorted(OSU))
    new, rest = ids_in(correct(site, 'split', one['id'], '--case', OSU[5], *WHY))
    assert (site.work.shown(new)['since'], site.work.shown(rest)['since']) == ('2026-11-28', '2026-11-26')
    assert (site.work.shown(new)['sessions'], site.work.shown(rest)['sessions']) == (1, 3)
    site.run(slow_checks)
    assert {one['id']: one['since'] for one in site.judged(1)} == {new: '2026-11-28', rest: '2026-11-26'}


def test_a_late_session_before_all_that_show_it_enters_both_parts_of_a_split_incident(site):
    late = site.content(slow_checks)
    site.run(slow_checks)
    (one,) = site.judged(1)
    new, rest = ids_in(correct(site, 'split', one['id'], '--case', 'OsuBarrier', *WHY))
    site.work.ingest(late)
    uuid = late['session_info']['uuid']
    assert {one['id'] for one in site.work.compare(uuid)['incidents']} == {new, rest}
    assert listed(site) == {new, rest}
    assert all(site.work.shown(id)['seen'][uuid]['bad'] == [''] for id in (new, rest))
    found = {one['id']: one['checks'] for one in site.judged(1)}
    assert found == {new: ['OsuBarrier'], rest: sorted(set(OSU) - {'OsuBarrier'})}


# Date


def test_a_date_stays_over_the_nights(site):
    site.run(two_slow)
    one = by_place(site.judged(1))['n3']
    said = correct(site, 'date', one['id'], '2026-11-24', '--why', 'the log has it')
    assert said.startswith(f'{one["id"]} in 3 sessions since 2026-11-24: NODE n3: ')
    for number in range(2):
        found = by_place(site.judged(1))
        shown = found['n3']['id'], found['n3']['since'], found['n3']['session'], found['n3']['sessions']
        assert shown == (one['id'], '2026-11-24', '00000003', 3 + number)
        assert found['n9']['since'] == '2026-11-26'
        site.run(two_slow)
    document = site.work.shown(one['id'])
    assert document['corrected'] == ['dated on 2050-01-01 by admin, before: since 2026-11-26: the log has it']


def test_what_changed_is_looked_for_on_the_day_that_a_person_gave(site):
    """A kernel came two nights before the incident was found."""
    for night in range(3):
        site.run(slow_stream(0.8 if night == 2 else 1.0), lambda check: {'kernel': '6.5'})
    (one,) = site.judged(1)
    assert (one['since'], one['kind'], one['changed']) == ('2026-11-28', 'SYSTEM', [])
    correct(site, 'date', one['id'], '2026-11-26', '--why', 'users told us')
    for _ in range(2):
        (one,) = site.judged(1)
        found = one['since'], one['kind'], one['changed']
        assert found == ('2026-11-26', 'SOFTWARE', ['kernel: 6.1 -> 6.5'])
        site.run(slow_stream(0.8), lambda check: {'kernel': '6.5'})


def test_a_dated_part_and_a_dated_whole_keep_their_dates(pair):
    site, first, second = pair
    correct(site, 'date', first, '2026-11-23', *WHY)
    correct(site, 'merge', second, first, *WHY)
    assert [one['since'] for one in site.judged(1)] == ['2026-11-23']
    correct(site, 'date', second, '2026-11-25', *WHY)
    site.run(two_slow)
    assert [one['since'] for one in site.judged(1)] == ['2026-11-25']
    new, rest = ids_in(correct(site, 'split', second, '--node', 'n3', *WHY))
    site.run(two_slow)
    assert {one['id']: one['since'] for one in site.judged(1)} == {new: '2026-11-25', rest: '2026-11-25'}


# What cannot be corrected


@pytest.mark.parametrize(('words', 'says'), [
    (('merge', '<n3>', '<n3>', *WHY), 'two different incidents'),
    (('merge', '<n3>', 'ffffff', *WHY), "no incident has the id 'ffffff'"),
    (('merge', '<n3>', '', *WHY), "no incident has the id ''"),
    (('merge', '<n3>', '<n9>', '--why', ' '), '--why: expected a reason'),
    (('merge', '<n3>', '<n7>', *WHY), 'is a loss of performance, '),
    (('merge', '<n3>', '<over>', *WHY), 'was closed on 2026-11-'),
    (('split', '<n3>', *WHY), '--case or --metric or both, or --node alone'),
    (('split', '<n3>', '--node', 'n3', '--case', 'x', *WHY), 'or --node alone'),
    (('split', '<n3>', '--node', 'n3', *WHY), 'node n3 takes all of incident '),
    (('split', '<n3>', '--metric', 'x*', *WHY), 'expected a part of m0, m1, m2, m3, m4'),
    (('split', '<n3>', '--case', 'HPL', *WHY), 'expected a part of cpu/system STREAM size=big'),
    (('split', '<over>', '--metric', 'm1', *WHY), 'only those that last'),
    (('date', '<n3>', '2026-12-30', *WHY), '2026-12-30 is after the last session'),
    (('date', '<n3>', '2026-11-28', *WHY), 'is after 2026-11-27, when a session showed'),
    (('date', '<n3>', '2026-11-20', *WHY), 'is before the first session of the store, which was on 2026-11-21'),
    (('date', '<n3>', 'soon', *WHY), "'soon' is neither"),
    (('date', '<n3>', '0000', *WHY), "'0000' is the beginning of several"),
])  # fmt: skip
def test_a_wrong_correction_is_one_sentence_and_changes_nothing(wrong, words, says):
    site, ids = wrong
    before = site.work.judged()
    said = correct(site, *(ids.get(word, word) for word in words), code=2)
    assert says in said and said.count('\n') == 1
    assert site.work.judged() == before


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


def test_an_id_that_begins_several_is_one_sentence(site):
    """A ladder names each of 16 nodes, and two lost: of 18 ids two begin with the same digit."""
    named = [['node', f'node {node}', [node], f'node {node}: 10 MB/s, expected 50'] for node in NODES]
    site.run(two_slow, again=[[ladder(site, *named)]])
    assert len(site.judged(1)) == 18
    digits = [id[0] for id in listed(site)]
    twice = next(digit for digit in digits if digits.count(digit) > 1)
    said = correct(site, 'split', twice, '--metric', 'm1', *WHY, code=2)
    assert f'{twice!r} is the beginning of several incidents' in said and said.count('\n') == 1


def test_incidents_of_two_sites_are_not_merged(pair):
    site, first, _ = pair
    work, other = site.work, site.work.sites / 'other'
    other.mkdir()
    (other / 'site.yaml').write_text((work.sites / SITE / 'site.yaml').read_text())
    work.ingest(report(case(site='other', result='fail', fail_phase='sanity'), uuid='eeee', began=BEGAN + 9 * DAY))
    (theirs,) = work.compare('eeee')['incidents']
    said = correct(site, 'merge', first, theirs['id'], *WHY, code=2)
    assert f'incident {first} is of site {SITE}, {theirs["id"]} of other' in said and said.count('\n') == 1
    assert not notes_of(site)


# Closed by a person, and days of the past


def test_what_a_person_closed_stays_closed_and_comes_back_as_another(pair):
    site, first, second = pair
    assert correct(site, 'close', first, '--why', 'the node is gone').startswith(f'{first} closed: NODE n3: ')
    assert {one['id'] for one in site.judged(1) if one['state'] != 'closed'} == {second}
    site.run(two_slow)
    found = by_place(site.judged(1))
    assert found['n3']['id'] != first and found['n3']['before'] == [first]
    assert site.work.shown(first)['corrected'] == ['closed on 2050-01-01 by admin: the node is gone']


def test_the_checks_of_an_incident_run_again_by_its_own_command(pair, monkeypatch):
    site, first, _ = pair
    ran, codes = [], [7, -9]  # the second is killed
    monkeypatch.setattr(
        'subprocess.run', lambda words, **_: ran.append(words) or SimpleNamespace(returncode=codes.pop(0))
    )
    correct(site, 'recheck', first, code=7)
    ((command, *options),) = ran
    assert command == 'ci/nightly' and str(site.work.results) in options
    assert '-n' in options[options.index('--') :] and any('STREAM' in word for word in options)
    correct(site, 'recheck', first, code=137)
    correct(site, 'close', first, '--why', 'repaired')
    assert f'incident {first} was closed on 2026-11-' in correct(site, 'recheck', first, code=2) and len(ran) == 2


def test_a_strict_comparison_is_red_until_what_heals_is_closed(site):
    site.run(two_slow)
    site.judged(1)
    for closed in (False, False, True):
        site.run(lambda *_: 1.0)
        document = site.judged(0)
        assert site.work.run('compare --strict').exit_code == int(not closed), document


def test_what_is_not_acknowledged_any_more_fails_again(pair):
    site, first, second = pair
    for id in (first, second):
        correct(site, 'acknowledge', id, '--why', 'fan', '--until', '2026-12-24')
    site.judged(0)
    correct(site, 'unacknowledge', first, '--why', 'the fan is new')
    assert {one['id']: one['state'] for one in site.judged(1)} == {first: 'open', second: 'acknowledged'}
    assert 'is not acknowledged' in correct(site, 'unacknowledge', first, '--why', 'again', code=2)


def test_the_ledger_of_a_past_day_is_the_one_that_was_printed_then(site):
    def printed(*words):
        return [
            {key: one[key] for key in ('id', 'state', 'sessions', 'since', 'nodes')}
            for one in json.loads(site.work.run('incidents list --format json', *words).stdout)
        ]

    site.run(two_slow)
    site.judged(1)
    then = {}
    for level in (two_slow, slow_node(0.8), lambda *_: 1.0, two_slow):
        uuid = site.run(level)
        then[Store(site.work.results).find(uuid).day] = site.work.compare() and printed()
    assert {day: printed('--day', day) for day in then} == then
    assert len({str(rows) for rows in then.values()}) == len(then)


def test_what_is_kept_of_the_ledger_is_what_follows_from_all_nights(pair):
    """Also after notes on incidents of nights before; a damaged or changed file is not used."""
    site, first, second = pair
    path = site.work.results / f'judged/{SITE}.ledger'
    correct(site, 'merge', first, second, *WHY)
    for level in (two_slow, slow_node(0.8), lambda *_: 1.0):
        site.run(level)
        site.work.compare()
        correct(site, 'acknowledge', first, '--why', 'fan', '--until', '2026-12-24')
        kept = Ledger(Store(site.work.results), SITE)
        assert kept.known() == Ledger(Store(site.work.results), SITE).whole().known()
    assert len(kept.nights) == 1 and path.exists(), 'of four nights, three are in what is kept'
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert Ledger(Store(site.work.results), SITE).known() == kept.known()


def test_commands_name_the_results_where_they_are_now(pair):
    """Not where they were when the ledger of the nights before was kept."""
    site, first, _ = pair
    site.run(two_slow)
    site.judged(1)
    moved = site.work.results = site.work.results.rename(site.work.results.with_name('moved'))
    assert all(str(moved) in step for step in site.work.shown(first)['next_steps'] if step.startswith('plumbline'))
