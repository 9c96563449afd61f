# Removes the lock that a killed Snakemake left behind, if no other Snakemake runs in this folder.
#
# Snakemake locks the files of its jobs by notes under .snakemake/locks, which do not say who wrote them. So every
# Snakemake here also holds a lock of the operating system (flock), which ends with its process. A Snakemake that gets
# this lock exclusively is the only one here, so notes that it finds are left over from killed ones.

import fcntl
from contextlib import suppress

from snakemake_interface_executor_plugins.settings import ExecMode

if workflow.exec_mode == ExecMode.DEFAULT:  # but not in the Snakemake that a cluster job starts
    Path(".snakemake").mkdir(exist_ok=True)
    ALIVE = Path(".snakemake/alive").open("a+")  # open as long as the process lives; NFS shares only what can be read
    # if another one holds it, or this file system has no locks, the notes stay; `snakemake --unlock` removes them
    with suppress(OSError):
        fcntl.flock(ALIVE, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for note in Path(".snakemake/locks").glob("*.lock"):
            note.unlink()
    with suppress(OSError):
        fcntl.flock(ALIVE, fcntl.LOCK_SH)
