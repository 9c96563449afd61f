"""Which modules of ours jobs really load: `loaded_modules.py PLAN TOLD`.

PLAN lists calls {job: {verb, config, folder, out, runtime, state, cache}}; TOLD gets {job: modules of this package}. Each job
runs in a forked child of a process that has imported what is slow to import, and nothing of ours.
"""

import importlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from confined import forked

PACKAGE = "mdc"
_SLOW = ("matplotlib.pyplot", "pandas", "pyarrow.parquet", "torch.utils.tensorboard", "open_clip", "sklearn.datasets")


def run(call: dict[str, Any], told: Path) -> None:
    """Do the job as the command line does, without the command line's own modules."""
    from mdc.plan.jobs.call import Call
    from mdc.plan.jobs.folder import ScaleFolder
    from mdc.plan.jobs.read import read_job
    from mdc.plan.verbs import VERBS

    verb = VERBS[call["verb"]]
    places = {name: Path(call[name]) for name in verb.options if name in call}
    job = read_job(call["config"], call["verb"])
    importlib.import_module(verb.module).main(Call(job, ScaleFolder(Path(call["folder"])), Path(call["out"]), **places))
    told.write_text(json.dumps(sorted(m for m in sys.modules if m == PACKAGE or m.startswith(f"{PACKAGE}."))))


def main(plan: Path, told: Path) -> None:
    for name in _SLOW:
        importlib.import_module(name)
    assert not [name for name in sys.modules if name.startswith(PACKAGE)]
    found = {}
    for job, call in json.loads(plan.read_text()).items():
        assert forked(partial(run, call, told)) == 0, job
        found[job] = json.loads(told.read_text())
    told.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
