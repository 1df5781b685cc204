#!/bin/bash
# rank.sh PROGRAM [ARGUMENT]...   binds one rank, writes down the binding it got, then becomes PROGRAM.
#
# PLUMBLINE_CPUS: one CPU list for each local rank, separated by colons; unset: the rank keeps what it was given.
# The launcher's own variable comes before Slurm's: mpirun inside a Slurm job inherits SLURM_LOCALID=0 for all ranks.
if [ -z "$PLUMBLINE_BOUND" ]; then
    local_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${PALS_LOCAL_RANKID:-${MV2_COMM_WORLD_LOCAL_RANK:-${FLUX_TASK_LOCAL_ID:-${JSM_NAMESPACE_LOCAL_RANK:-${SLURM_LOCALID:-0}}}}}}}
    export PLUMBLINE_BOUND=$local_rank
    if [ -n "$PLUMBLINE_CPUS" ]; then
        IFS=: read -r -a cpus <<< "$PLUMBLINE_CPUS"
        if [ -z "${cpus[local_rank]}" ]; then
            echo "plumbline: local rank $local_rank: no CPUs were asked for it in '$PLUMBLINE_CPUS'" >&2
            exit 125
        fi
        exec taskset --cpu-list "${cpus[local_rank]}" "$BASH" "$0" "$@"
    fi
fi
while read -r key value; do
    if [ "$key" = Cpus_allowed_list: ]; then
        echo "$value" > "binding.${SLURMD_NODENAME:-$HOSTNAME}.$PLUMBLINE_BOUND"
        break
    fi
done < /proc/self/status
unset PLUMBLINE_BOUND
exec "$@"
