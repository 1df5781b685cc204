"""What the checks of collectives on 1, 2, 4, ... nodes share."""

import reframe as rfm
from reframe.core.builtins import run_after


class OnNodes(rfm.RegressionTestPlugin):
    """A check with the parameter `nodes`: up to 16 of them run every night, more at an acceptance."""

    @run_after('init')
    def count_nodes(self):
        self.num_nodes = self.nodes
        self.tags = {'acceptance'} | ({'nightly'} if self.nodes <= 16 else set())
