# SPDX-License-Identifier: BSD-3-Clause
"""What a ReFrame command line leaves out."""

from rows import each_row

from postprocess.readers.cmdline import read_cmdline


@each_row(
    ('arguments', 'options'),
    [
        ('-c checks/ -R -r --mode=nightly -S HPCC.trials=2 -J time=10', ()),
        ('-rnHPCC', ('--name',)),
        ('--nam HPCC -r', ('--name',)),
        ('--exclude-t slow -r', ('--exclude-tag',)),
        ('-r -x HPCC', ('--exclude',)),
        ('-r -t memory', ('--tag',)),
        ('-r --tag=nightly', ()),
        ('-r -E \'name == "x"\'', ('--filter-expr',)),
        ('-r --distribute=all', ('--distribute',)),
        ('-r --restore-session=0.json --failed', ('--restore-session', '--failed')),
    ],
)
def test_options_that_leave_cases_out(arguments, options):
    assert read_cmdline(f'reframe {arguments}', 'nightly').narrowed_by == options


def test_the_tag_of_another_mode_leaves_cases_out():
    assert read_cmdline('reframe -r -t quick', 'nightly').narrowed_by == ('--tag',)


def test_mode_and_system():
    selection = read_cmdline('/opt/bin/reframe --mode nightly --system=mn5:gpp -r')
    assert (selection.mode, selection.site, selection.partition) == ('nightly', 'mn5', 'gpp')
    assert read_cmdline('reframe --mode=quick -r', 'acceptance').mode == 'acceptance', 'that of the session counts'


def test_an_unreadable_command_line_is_no_whole_mode():
    assert read_cmdline('reframe -r "unclosed', 'quick').narrowed_by


@each_row('line, dry', [('reframe -r', False), ('reframe --dry-run', True), ("/opt/reframe -n 'a b' --dry", True)])
def test_a_dry_run(line, dry):
    assert read_cmdline(line).is_dry_run is dry
