"""Many plans judged by many processes: `verify-plan --jobs`, `--cluster` and `--resume`.

    words      what solvers and kernel judge of a plan, by its digest: of equal ones it is proved once
    results    verdicts that are kept in a folder, each under the digest of all that it rests on
    worker     what a worker does with one file
    pools      processes of this machine (loky), or of a Dask cluster
    schedule   the order of files and their workers, and the consequences of a worker that dies

A worker is a process; solvers run in separate processes, not in threads. spec: V7.1 to V7.12
"""
