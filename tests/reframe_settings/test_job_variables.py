# SPDX-License-Identifier: BSD-3-Clause
"""What a benchmark finds in its environment."""

SECRETS = {
    'PLUMBLINE_TOKEN': 'hush', 'PLUMBLINE_HTTPJSON_AUTHORIZATION': 'Bearer hush', 'PLUMBLINE_NOTIFY': 'mailto://hush',
    'CI_JOB_TOKEN': 'hush', 'AWS_SECRET_ACCESS_KEY': 'hush', 'db_password': 'hush', 'GITHUB_PAT': 'hush',
    'DOCKER_AUTH_CONFIG': '{"auths": {"x": "hush"}}', 'SSH_AUTH_SOCK': '/tmp/hush', 'SLURM_JWT': 'hush',
    'PGPASSWORD': 'hush', 'MYSQL_PWD': 'hush', 'SMTP_PASS': 'hush', 'DATABASE_URL': 'postgres://u:hush@db/x',
    'https_proxy': 'http://me:hush@proxy:3128', 'HTTP_PROXY': 'me:hush@proxy:3128', 'LC_PASS': 'hush',
    'SPACK_MIRROR': 'https://hush@mirror/x', 'APPTAINER_DOCKER_PASSWORD': 'hush', 'UNHEARD_OF': 'hush',
}  # fmt: skip
NEEDED = {
    'LM_LICENSE_FILE': '1055@licenses', 'http_proxy': 'http://proxy:3128', 'no_proxy': 'localhost', 'LC_ALL': 'C.UTF-8',
    'SLURM_CONF': '/x', 'SBATCH_ACCOUNT': 'hpc', 'OMPI_MCA_btl': '^openib', 'PMIX_MCA_gds': 'hash', 'UCX_TLS': 'rc',
    'FI_PROVIDER': 'cxi', 'NCCL_DEBUG': 'INFO', 'I_MPI_FABRICS': 'ofi', 'MPICH_OFI_NIC_POLICY': 'NUMA',
    'MODULEPATH': '/m', 'LMOD_CMD': '/l', '_ModuleTable001_': 'x', 'BASH_FUNC_module%%': '() {  eval "$1"\n}',
    'CRAY_MPICH_VERSION': '8', 'EBROOTHPL': '/e', 'GOMP_SPINCOUNT': '0', 'HSA_XNACK': '1', 'ROCR_VISIBLE_DEVICES': '0',
    'ONEAPI_DEVICE_SELECTOR': 'level_zero:*', 'MKLROOT': '/k', 'CUDA_HOME': '/c', 'LIKWID_FORCE': '1',
    'OMP_STACKSIZE': '1M', 'PBS_CONF_FILE': '/p', 'LSF_ENVDIR': '/s',
    'FLUX_URI': 'local:///f', 'KMP_BLOCKTIME': '0', 'LD_BIND_NOW': '1',
    'SPACK_USER_CACHE_PATH': '/tmp/u', 'SCRATCH': '/scratch', 'HDF5_USE_FILE_LOCKING': 'FALSE', 'ZE_AFFINITY_MASK': '0',
}  # fmt: skip
OF_THE_SITE = {'KRB5CCNAME': '/tmp/krb', 'OURS_A': 'a', 'OUR_PROJECT': 'hpc'}


def test_a_benchmark_gets_what_jobs_need_and_the_site_names_and_nothing_else(clone, tmp_path):
    clone.program(f'env -0 > {tmp_path}/seen; env; echo "rate: 50.5"; echo "delay: 1.25"')
    partition = 'file_systems: {disk: {path: /$OUR_PROJECT/x, kind: local}}\n    environs'
    text = clone.site_file.read_text().replace('environs', partition, 1)
    clone.site_file.write_text(f'env_keep: [KRB5CCNAME, "OURS_*"]\nenv_vars: [[GITLAB_PAT, of the site]]\n{text}')
    answer = clone.reframe('-r', '-n', 'Demo', **SECRETS, **NEEDED, **OF_THE_SITE)
    assert answer.returncode == 0, answer.stdout
    seen = dict(line.partition('=')[::2] for line in (tmp_path / 'seen').read_text().split('\0') if line)
    wanted = NEEDED | OF_THE_SITE | {'GITLAB_PAT': 'of the site'}
    assert {name: seen.get(name) for name in wanted} == wanted
    assert not SECRETS.keys() & seen.keys() and 'hush' not in str(seen)
    assert {name for name in seen if name.startswith('PLUMBLINE_')} == {'PLUMBLINE_RANK'}
    kept = [path for path in clone.results.rglob('*') if path.is_file() and b'hush' in path.read_bytes()]
    assert not kept
