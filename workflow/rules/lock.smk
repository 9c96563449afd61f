# A lock that a killed Snakemake left behind is lifted by the next one, if no other lives in this folder.
#
# Snakemake locks the files of its jobs by notes under .snakemake/locks, without saying who wrote them. So every
# Snakemake here also holds a lock of the system's (flock), which ends with the process, however that ends: who gets it
# alone is the only one, and older notes are nobody's.

import fcntl
from contextlib import suppress

from snakemake_interface_executor_plugins.settings import ExecMode

if workflow.exec_mode == ExecMode.DEFAULT:  # not the one that a cluster job starts
    Path(".snakemake").mkdir(exist_ok=True)
    ALIVE = Path(".snakemake/alive").open("w")  # open as long as the process lives
    # taken by another, or not to be had on this file system: the notes stay, and `snakemake --unlock` is the way
    with suppress(OSError):
        fcntl.flock(ALIVE, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for note in Path(".snakemake/locks").glob("*.lock"):
            note.unlink()
    with suppress(OSError):
        fcntl.flock(ALIVE, fcntl.LOCK_SH)
