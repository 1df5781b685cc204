"""Nodes that do not answer: for a moment, or for good."""

from types import SimpleNamespace

import pytest

from ci import slurm_nodes

SITE = SimpleNamespace(
    partitions={'p': SimpleNamespace(name='p', entry={'scheduler': 'slurm', 'access': ['-p compute']})}
)


@pytest.fixture
def answers(monkeypatch):
    """What sinfo says, one answer after the other; the last one again and again."""
    given = []
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: given.pop(0) if len(given) > 1 else given[0])
    monkeypatch.setattr(slurm_nodes.time, 'sleep', lambda seconds: None)
    return given


def test_a_node_that_answers_in_a_moment_is_not_lost(answers):
    answers += ['n1|unknown|none\nn2|idle*|none\n', 'n1|idle|none\nn2|idle*|none\n', 'n1|idle|none\nn2|idle|none\n']
    assert slurm_nodes.nodes_out(SITE) == []


def test_a_node_that_does_not_answer_is_lost(answers, monkeypatch):
    monkeypatch.setattr(slurm_nodes, '_ANSWER', 0)
    answers.append('n1|idle*|none\nn2|idle|none\n')
    (node,) = slurm_nodes.nodes_out(SITE)
    assert node.lost and str(node) == 'n1 of p is idle*'


def test_a_node_that_slurm_gave_up_is_not_waited_for(answers):
    answers += ['n1|down*|Not responding\nn2|drained|disk\n', 'n1|idle|none\nn2|idle|none\n']
    assert [(node.name, node.lost, node.reason) for node in slurm_nodes.nodes_out(SITE)] == [
        ('n1', True, 'Not responding'), ('n2', False, 'disk'),
    ]  # fmt: skip
