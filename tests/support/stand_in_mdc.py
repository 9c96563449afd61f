"""A stand-in for `mdc` that learns nothing: every output is a function of the job's configuration and inputs.

It keeps the real one's command line, files and chain of hashes (both from the project's own dictionaries of verbs and
artefacts), starts in a few hundredths of a second, and notes every call in the file $CALLS. A training named in the file
$DIE writes half of its state and dies as if killed.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, os.environ["PYTHONPATH"].split(os.pathsep)[0])

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.verbs import VERBS, verb_of

STAGE = """
import argparse, sys
from mdc.plan.stage import main
main(argparse.Namespace(name=sys.argv[1], params="params.yaml", scale=sys.argv[3]))
"""


def sha256(content):
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, sort_keys=True))


def note(line):
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(line + "\n")


def named(record):
    """The files that a record names, as they are now; their hashes must hold."""
    found = []
    for name, told in json.loads(record.read_text())["outputs"].items():
        content = (record.parent / name).read_bytes()
        assert sha256(content) == told, record
        found.append(content)
    return found


def work(job, state, digest):
    """Half of a training's work, then the rest; a state of the same run is resumed."""
    half = state / "state.json"
    resumed = half.is_file() and json.loads(half.read_text()) == {"digest": digest}
    write(half, {"digest": digest})
    die = Path(os.environ["DIE"])
    if die.is_file() and die.read_text() == job:
        note(f"{job} died")
        os.kill(os.getpid(), signal.SIGKILL)
    half.unlink()
    return f"{job} resumed" if resumed else job


def headline(digest, inputs):
    """Numbers of the trained encoders' names, for DVC's metrics."""
    trained = [job.removeprefix("probe/").rpartition("/")[0] for job in inputs if "untrained" not in job]
    values = {name: int(sha256(name + digest)[:4], 16) / 1000 for name in trained}
    return {name: {"average": value, "gain": value / 10} for name, value in values.items()}


def main(verb, config_file, *words):
    config_file = Path(config_file)
    config = json.loads(config_file.read_text())
    job = config["job"]
    assert config["verb"] == verb, config_file
    folder = ScaleFolder(next(place for place in config_file.parents if place.name == "configs").parent)
    options = dict(zip(words[::2], words[1::2], strict=False))
    inputs = {name: folder.manifest(name, verb_of(name)) for name in config["inputs"]}
    read = [path.read_bytes() for path in inputs.values()]
    read += [content for name in inputs for content in named(folder.record(name, verb_of(name)))]
    digest = sha256(b"\0".join([json.dumps(config, sort_keys=True).encode(), *read]))
    if "--runtime" in options:
        json.loads(Path(options["--runtime"]).read_text())
    note(work(job, Path(options["--state"]), digest) if verb == "pretrain" else job)
    out, record, manifest = folder.job(job), folder.record(job, verb), folder.manifest(job, verb)
    outputs = config["files"] if verb == "make" else VERBS[verb].outputs
    if manifest != record:
        write(out / "train-00000.tar", f"shard of {digest}\n" * 50)
        write(out / "train-00000.offsets.npy", f"offsets of {digest}\n" * 5)
        shard = {"file": "train-00000.tar", "sha256": sha256((out / "train-00000.tar").read_bytes())}
        write(manifest, {"job": job, "shard": shard})
        outputs = (manifest.name,)
    else:
        for name in outputs:
            metrics = name.endswith("_metrics.json")
            write(out / name, headline(digest, inputs) if metrics else f"{name} of {digest}\n" * 20)
    told = {name: sha256((out / name).read_bytes()) for name in outputs if name != "log.jsonl"}
    named_inputs = {name: sha256(path.read_bytes()) for name, path in inputs.items()}
    canonical = sha256(json.dumps(config, sort_keys=True, separators=(",", ":")))
    write(record, {"id": job, "config": config, "config_sha256": canonical, "inputs": named_inputs, "outputs": told})


if __name__ == "__main__":
    if sys.argv[1] == "index":  # no job, so it is not noted
        Path("results/index.html").write_text(f"{sys.argv[2:]}\n")
        Path("results", sys.argv[sys.argv.index("--scale") + 1], "claims.csv").write_text("scale\n")
    elif sys.argv[1] == "stage":  # as it is, since it only asks Snakemake
        python = str(Path(sys.argv[0]).with_name("python"))
        os.execv(python, [python, "-c", STAGE, *sys.argv[2:]])
    else:
        main(*sys.argv[1:])
