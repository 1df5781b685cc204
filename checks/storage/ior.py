"""IOR: bandwidth and operations a second of a parallel or local file system."""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.core.placement import one_rank_on
from checks.core.topology import current_site
from checks.storage.ior_base import MIB, PATTERNS, IORBenchmark
from checks.storage.storage import MAPPINGS, client_counts, file_systems, mapped, rank_counts
from plumbline.record import Dim

QUICK = ('easy_1m', 'hard_47008')
BYTES_OF_NODE = {'quick': 64 * MIB, 'nightly': 256 * MIB}
BYTES_OF_RANK = 64 * MIB  # where their number is varied


def apis() -> list[str]:
    """Those that the stacks of the current system offer; IOR is built with HDF5 where the feature says so."""
    offered = {feature for environ in current_site().environs.values() for feature in environ.features}
    return ['POSIX', 'MPIIO', *(['HDF5'] if 'ior-hdf5' in offered else [])]


@rfm.simple_test
class IOR(IORBenchmark):
    """Writes and reads files with each pattern, buffered and with ``io=direct``; patterns as in IO500 and 000."""

    descr = 'IOR'
    file_system = parameter(file_systems(), loggable=True)
    api = parameter(apis(), loggable=True)
    size = parameter(['quick', 'nightly', 'full'], loggable=True)
    nodes = parameter(client_counts())

    def supports(self, topology):
        return super().supports(topology) and (self.size != 'quick' or self.api == 'POSIX')

    @run_after('init')
    def choose_offer(self):
        self.requires = 'ior-hdf5' if self.api == 'HDF5' else 'ior'

    @run_after('setup')
    def choose_runs(self):
        of_node = BYTES_OF_NODE.get(self.size) or self.bytes_of_node()
        for name, pattern in PATTERNS.items():
            if (self.size == 'quick' and name not in QUICK) or (pattern.random and self.api == 'HDF5'):
                continue
            self.add(name, of_node)
            # only POSIX has O_DIRECT, which wants whole blocks of the device
            if self.api == 'POSIX' and self.size != 'quick' and self.kind.direct and pattern.transfer % 4096 == 0:
                self.add(name, of_node, direct=True)
        if self.num_nodes > 1:
            self.provenance['readers'] = 'ranks of another node than the one that wrote'
        else:
            self.provenance['readers'] = 'the node that wrote, with O_DIRECT or after its cache dropped the files'
        self.need()


@rfm.simple_test
class IORRanks(IORBenchmark):
    """Writes with 1, 2, 4, ... ranks of a node that fill one socket after the other, or take turns among the sockets.

    As 002 Fig. 11, ``pattern=easy_1m`` and ``shared_1m``: on a node of 12 sockets, filling them was faster,
    and a shared file did not gain from more than half a socket.
    """

    descr = 'IOR, ranks mapped by core and by socket'
    dims = IORBenchmark.dims | {'ranks_per_node': Dim('count')}
    requires = 'ior'
    api = 'POSIX'
    file_system = parameter(file_systems(), loggable=True)
    mapping = parameter(MAPPINGS, loggable=True)
    ranks_per_node = parameter(rank_counts(), loggable=True)
    size, nodes = 'full', 1

    def supports(self, topology):
        if self.ranks_per_node not in rank_counts(topology):
            return False
        first = mapped(topology, MAPPINGS[0], self.ranks_per_node)
        differs = set(mapped(topology, self.mapping, self.ranks_per_node)) != set(first)
        return super().supports(topology) and (differs or self.mapping == MAPPINGS[0])

    def placement_of_node(self):
        return one_rank_on(mapped(self.topology, self.mapping, self.ranks_per_node))

    @run_after('setup')
    def choose_runs(self):
        of_node = min(self.bytes_of_node(), BYTES_OF_RANK * self.ranks)
        for name in ('easy_1m', 'shared_1m'):
            for direct in (False, True) if self.kind.direct else (False,):
                self.add(name, of_node, direct, read=False)
        self.need()
