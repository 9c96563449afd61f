"""A stand-in for `mdc` that learns nothing: every output is a function of the job's configuration and inputs.

It keeps the real one's command line, files and chain of hashes, starts in a few hundredths of a second, and notes every
call in the file $CALLS. A training named in the file $DIE writes half of its state and dies as if killed.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

TABLE1 = ["table1.csv", "table1_long.csv", "table1_contrasts.csv", "table1.html", "table1.md", "table1.tex"]
TABLE1 += ["figure_table1.png", "figure_table1.svg", "table1.json"]
FIGURE3 = ["figure3.png", "figure3.svg", "figure3.pdf", "figure3.csv", "figure3_summary.csv", "figure3.json"]
TABLE9 = ["table9.csv", "table9_long.csv", "table9.html", "table9.md", "table9.tex", "table9.json"]
LOSSES = ["figure_loss.png", "figure_loss.svg", "figure_loss.csv", "figure_loss.json"]
SCHEDULES = [f"figure_schedules{ending}" for ending in (".png", ".svg", ".csv", "_curves.csv", ".json")]
FIGURE4 = [f"figure4{ending}" for ending in (".png", ".svg", ".pdf", ".csv", "_contrasts.csv", ".json")]
FIGURE5 = [f"figure5{ending}" for ending in (".png", ".svg", ".pdf", ".csv", "_trend.csv", ".json")]
FIGURES = {"loss-curves": LOSSES, "schedules": SCHEDULES, "caption-lengths": FIGURE3, "table9": TABLE9}
FIGURES |= {"mask-ratios": FIGURE4, "pair-counts": FIGURE5}


def sha256(*parts):
    return hashlib.sha256(b"\0".join(p if isinstance(p, bytes) else str(p).encode() for p in parts)).hexdigest()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, sort_keys=True))


def note(line):
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(line + "\n")


def options(words):
    found = {}
    for word in words:
        if word.startswith("--"):
            found[word[2:]] = values = []
        else:
            values.append(Path(word))
    return found


def named(manifest, key):
    """The file that a manifest names, as it is now; its hash must hold."""
    told = json.loads(manifest.read_text())[key]
    content = (manifest.parent / told["file"]).read_bytes()
    assert sha256(content) == told["sha256"], manifest
    return content


def shards(job, out, digest):
    write(out / "train-00000.tar", f"shard of {digest}\n" * 50)
    write(
        out / "index.json",
        {"job": job, "shard": {"file": "train-00000.tar", "sha256": sha256_of(out, "train-00000.tar")}},
    )


def sha256_of(out, name):
    return sha256((out / name).read_bytes())


def pretrain(job, out, state, digest):
    """Half of the work, then the rest; a state of the same run is gone on from."""
    half = state / "state.json"
    resumed = half.is_file() and json.loads(half.read_text()) == {"digest": digest}
    write(half, {"digest": digest})
    die = Path(os.environ["DIE"])
    if die.is_file() and die.read_text() == job:
        note(f"{job} died")
        os.kill(os.getpid(), signal.SIGKILL)
    note(f"{job} resumed" if resumed else job)
    write(out / "checkpoint.safetensors", f"weights of {digest}\n" * 50)
    write(out / "log.jsonl", json.dumps({"step": 1, "loss": int(digest[:4], 16)}) + "\n")
    told = {"file": "checkpoint.safetensors", "sha256": sha256_of(out, "checkpoint.safetensors")}
    write(out / "run.json", {"job": job, "checkpoint": told})
    half.unlink()


def main(verb, config_file, *words):
    given = options(words)
    config = json.loads(Path(config_file).read_text())
    assert config["verb"] == verb, config_file
    job = config["job"]
    (out,) = given["out"]
    read = [
        path.read_bytes()
        for key in ("shards", "vocabulary", "corpora", "sets", "run", "records", "runs", "indexes", "obtained")
        for path in given.get(key, [])
    ]
    read += [named(index, "shard") for key in ("shards", "corpora", "sets", "indexes") for index in given.get(key, [])]
    read += [named(run, "checkpoint") for run in given.get("run", [])]
    read += [named(record, "items") for record in given.get("records", [])]
    read += [(run.parent / "log.jsonl").read_bytes() for run in given.get("runs", [])]
    digest = sha256(json.dumps(config, sort_keys=True), *read)
    if verb == "pretrain":
        json.loads(given["runtime"][0].read_text())
        return pretrain(job, out, given["state"][0], digest)
    note(job)
    if verb == "obtain":
        json.loads(given["runtime"][0].read_text())
        write(out / "obtained.json", {"job": job, "digest": digest})
        write(out / "made.json", {"job": job, "digest": digest})
    elif verb in ("corpus", "probe-set", "choice-set", "texts"):
        shards(job, out, digest)
        write(out / "made.json", {"job": job, "digest": digest})
    elif verb == "vocabulary":
        write(out, {"job": job, "digest": digest})
        write(out.with_name("vocabulary.made.json"), {"job": job})
    elif verb == "probe":
        write(out / "items.parquet", f"items of {digest}\n" * 50)
        write(
            out / "probe.json",
            {
                "id": job.removeprefix("probe/"),
                "items": {"file": "items.parquet", "sha256": sha256_of(out, "items.parquet")},
            },
        )
    elif verb == "table1":
        for name in TABLE1:
            write(out / name, f"{name} of {digest}\n")
        values = {
            json.loads(path.read_text())["id"]: int(sha256(path.read_bytes())[:4], 16) / 1000
            for path in given["records"]
        }
        headline = {
            k.rpartition("/")[0]: {"average": v, "gain": v / 10} for k, v in values.items() if "untrained" not in k
        }
        write(out / "table1_metrics.json", headline)
    elif verb == "method-table":
        for ending in (".csv", "_long.csv", "_contrasts.csv", ".html", ".md", ".tex", ".json"):
            write(out / f"{job}{ending}", f"{job}{ending} of {digest}\n")
    elif verb == "recipes":
        for table in config["tables"]:
            for ending in ("csv", "html", "md", "tex"):
                write(out / f"{table['key']}.{ending}", f"{table['key']} of {digest}\n")
        write(out / "recipes.json", {"job": job, "digest": digest})
    elif verb in FIGURES:
        for name in FIGURES[verb]:
            write(out / name, f"{name} of {digest}\n")
    else:
        raise SystemExit(f"no such verb here: {verb}")


if __name__ == "__main__":
    main(*sys.argv[1:])
