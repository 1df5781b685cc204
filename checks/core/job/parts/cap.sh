#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cap.sh set WATTS NORMAL COMMAND   caps the power of this node, after a guard is in place that outlives this job
# cap.sh restore                    sets NORMAL W again and dismisses the guard; nothing where no cap is set
#
# COMMAND prints the cap in W, and sets it to a number that follows. The guard sets NORMAL W when the job has ended in
# whatever way: under Slurm a job that depends on this one, because Slurm kills all processes of a job; elsewhere a
# process in a session of its own. Without a guard no cap is set. What fails after the trials goes to health.txt.

now() { LC_ALL=C printf '%.0f' "$(eval "$command")"; }

set_to() { eval "$command $1" > /dev/null && [ "$(now)" = "$1" ]; }

refuse() {
    echo "plumbline: $*" >&2
    exit 1
}

# The script of the guard: it depends on no file of this job
script() {
    printf '#!/bin/bash\n%s\ncommand=%q\n' "$(declare -f now set_to)" "$command"
    printf 'for _ in {1..30}; do ! set_to %q || exit 0; sleep 10; done; exit 1\n' "$normal"
}

post_guard() {
    if [ -n "$SLURM_JOB_ID" ]; then
        guard=$(script | sbatch --parsable --dependency="afterany:$SLURM_JOB_ID" --nodelist="$SLURMD_NODENAME" \
            --partition="$SLURM_JOB_PARTITION" ${SLURM_JOB_ACCOUNT:+--account="$SLURM_JOB_ACCOUNT"} \
            ${SLURM_JOB_QOS:+--qos="$SLURM_JOB_QOS"} ${SLURM_JOB_RESERVATION:+--reservation="$SLURM_JOB_RESERVATION"} \
            --nodes=1 --ntasks=1 --time=6 --job-name=plumbline-cap --chdir=/ --output=/dev/null) &&
            guard=${guard%%;*} # the number of the job; of several clusters, the name follows
    else
        setsid bash -c "tail --pid=$PPID -f /dev/null; $(script)" < /dev/null > /dev/null 2>&1 &
        guard=$!
        kill -0 $guard
    fi
}

dismiss_guard() {
    if [ -n "$SLURM_JOB_ID" ]; then scancel "$guard"; else kill -- "-$guard"; fi
}

if [ "$1" = set ]; then
    watts=$2 normal=$3 command=$4
    [ "$(now)" = "$normal" ] ||
        refuse "the power cap is $(now) W, and \`normal\` of site.yaml $normal W; to set it: $command $normal"
    post_guard || refuse "no guard of the power cap could be put in place, so none was set"
    declare -p watts normal command guard > cap.set
    set_to "$watts" && exit 0
    said=$(now)
    bash "$0" restore
    refuse "$command $watts: expected a power cap of $watts W afterwards, found $said W"
fi

[ -e cap.set ] || exit 0
. ./cap.set
[ "$(now)" = "$watts" ] || echo "settings the power cap was $(now) W after the trials, expected $watts W" >> health.txt
for _ in 1 2 3; do
    if set_to "$normal"; then
        rm cap.set
        dismiss_guard
        exit 0
    fi
    sleep 1
done
echo "settings the power cap is $(now) W and could not be set to $normal W; the guard tries again, else: $command $normal" >> health.txt
exit 0
