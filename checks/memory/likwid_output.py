"""likwid-bench: its kernels, and what it prints of rates, cycles, threads and memory."""

import re

# Instruction set -> (archspec's name of it, suffix of likwid's kernels, the same with fused multiply-add)
ISAS = {
    'scalar': (None, '', ''),
    'sse': ('sse2', '_sse', '_sse'),
    'avx': ('avx', '_avx', '_avx_fma'),
    'avx512': ('avx512f', '_avx512', '_avx512_fma'),
}
ARRAYS = {'load': 1, 'store': 1, 'copy': 2, 'stream': 3, 'triad': 4}  # likwid-bench -l KERNEL, "Number of streams"
WITH_FMA_VARIANT = ('peakflops', 'peakflops_sp', 'stream', 'triad')
# What likwid calls cycles ticks at the nominal clock, whatever clock the cores run at.
OF_ONE_CORE_AND_CYCLE = (r'^Cycles:\s+(\S+)', r'^Using (\d+) threads')
FLOP_RATE = r'^MFlops/s:\s+(\S+)'
FLOPS = r'^Number of Flops:\s+(\S+)'
BYTE_RATE = r'^MByte/s:\s+(\S+)'
BYTES = r'^Data volume \(Byte\):\s+(\S+)'


def cpus_used(output: str) -> list[int]:
    """Return the hardware thread of each thread, sorted; twice the same where two shared it."""
    return sorted(map(int, re.findall(r'^Group: .* running on hwthread (\d+)', output, re.MULTILINE)))


def allocated_from(output: str) -> set[int]:
    """Return the hardware threads that first touched the arrays: the memory is in their NUMA domains."""
    return set(map(int, re.findall(r'^Allocate: Process running on hwthread (\d+)', output, re.MULTILINE)))
