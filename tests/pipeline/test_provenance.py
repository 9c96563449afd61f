"""`mdc verify` on a whole small project: good as made, and every planted staleness or tampering found."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_project
import tampering
import yaml
from small_project import CLIP, MDC, SCALE
from tampering import cell, edit, flip, plant, put, seal

from mdc.app.cli import main
from mdc.checks import chain
from mdc.checks.verify import check_copies
from mdc.data.shards.index import read_index, shard_list
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.fingerprint import fingerprint
from mdc.plan.jobs import context as plans
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import read_json, sha256_file
from mdc.plan.verbs import VERBS

pytestmark = pytest.mark.usefixtures("own_copy")

PARALLEL = "alt/ViT-T-12/parallel/s0"
PLAN = small_project.plan((0, 1))
_TEXT = Path(tampering.__file__).with_name("plants.yaml").read_text(encoding="utf-8")
PLANTS: list[dict[str, Any]] = yaml.safe_load(_TEXT.replace("RUN", MDC).replace("OTHER", CLIP))


@pytest.fixture
def own_copy(r: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy without configurations, on which nothing rests."""
    shutil.copytree(made, tmp_path / "project", copy_function=os.link, ignore=shutil.ignore_patterns("configs"))
    monkeypatch.chdir(tmp_path / "project")


def _only(r: Path, *kept: str) -> None:
    """Leave no table or figure but these: all are rebuilt before `verify` calls them good."""
    for name in ARTEFACTS.keys() - set(kept):
        shutil.rmtree(r / name, ignore_errors=True)
        for copy in r.parent.glob(f"{name}*"):
            copy.unlink()


@pytest.fixture
def data_and_models(r: Path) -> Path:
    """The same without any table or figure: verified in a moment, because nothing is rebuilt."""
    _only(r)
    return r


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["verify", *arguments])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said.out, said.err


def counts(out: str) -> dict[str, int]:
    return {words: int(n) for n, words in re.findall(r"^  (\d+) (.*): good$", out, re.M)}


def check_commands(err: str) -> None:
    """What it says to type exists: targets that the workflow makes, and jobs or rules to force."""
    manifests = {str(ScaleFolder(Path("results", SCALE)).manifest(name, job.verb)) for name, job in PLAN.jobs.items()}
    copies = {f"results/{ARTEFACTS[name].target}" for name in PLAN.jobs if name in ARTEFACTS}
    command = err.partition("to mend: ")[2].strip()
    found = re.fullmatch(r"snakemake (\S+) --cores all(?: --forcerun (?:make_)?(\S+))?", command)
    assert found is not None, err
    target, forced = found.groups()
    assert target in manifests | copies | ARTEFACTS.keys()
    assert forced is None or forced == target or forced in ARTEFACTS


# --- the good state ---------------------------------------------------------------------------------------------------


def test_as_made_every_link_holds(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = verify(capsys)
    assert code == 0 and all(line.startswith(("checked: ", "rebuilt: ")) for line in err.split("\n") if line), (
        "progress on a slow machine alone"
    )
    artefacts = [name for name in PLAN.jobs if name in ARTEFACTS]
    files = sum(len(ARTEFACTS[name].files) for name in artefacts)
    # every file of a job but its record, of which only what rests on it knows the hash, and its host file
    records = {ScaleFolder(r).record(name, job.verb) for name, job in PLAN.jobs.items()}
    named = [path for job in PLAN.jobs for path in (r / job).iterdir() if path.is_file() and path not in records]
    assert counts(out) == {
        "records": len(PLAN.jobs),
        "files that these name": len([p for p in named if p.name != "host.json"]),
        # but for those that hold times
        "files of tables and figures rebuilt from the records, equal to the byte": files
        - sum(len(ARTEFACTS[name].measured) for name in artefacts),
        f"copies at {r.parent}": files + len(artefacts),
    }
    assert out.endswith("  every link holds\n")


def test_what_nothing_rests_on_may_be_missing(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for job in PLAN.jobs:
        ScaleFolder(r).host(job).unlink()  # each job left one
    _only(r, "table1")
    for copy in Path("results").glob("*.*"):
        copy.unlink()
    code, out, err = verify(capsys)
    assert code == 0 and counts(out)["copies at results"] == 0, err


def test_copies_of_another_scale_are_left_alone(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _only(r, "table1", "table4")
    edit(Path("results/table1.json"), lambda m: m["config"].update(scale="paper"))
    put(Path("results/table1.csv"), "another scale's\n")
    code, out, _ = verify(capsys)
    assert code == 0 and "table1: its copies at results are of scale paper" in out


def test_what_no_table_was_made_from_is_verified_too(data_and_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    r = data_and_models
    code, out, err = verify(capsys)
    assert code == 0, err
    assert counts(out)["records"] == sum(name not in ARTEFACTS for name in PLAN.jobs)
    shutil.rmtree(r / "probe")
    assert counts(verify(capsys)[1])["records"] > 0, "nor were they probed"
    flip(r / "runs" / PARALLEL / "checkpoint.safetensors")
    code, _, err = verify(capsys)
    run = f"results/{SCALE}/runs/{PARALLEL}/run.json"
    assert code == 3 and err.endswith(f"to mend: snakemake {run} --cores all --forcerun {run}\n")


def test_nothing_is_made_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_project.write_params(tmp_path, small_project.values((0, 1)))
    monkeypatch.chdir(tmp_path)
    code, out, _ = verify(capsys)
    assert code == 0 and "nothing is made yet" in out and "every link holds" not in out


def test_of_large_sets_only_sizes_are_compared_and_it_says_so(
    data_and_models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    r = data_and_models
    index = r / "data/corpora/alt/index.json"
    monkeypatch.setattr(chain, "QUICK", sum(shard["bytes"] for shard in shard_list(read_index(index))) - 1)
    assert verify(capsys, "--deep")[1].endswith("  every link holds\n")
    flip(index.with_name("train-00001.tar"))
    code, out, _ = verify(capsys)
    assert code == 0
    assert "every link holds, but of 7 files in sets above 4 GiB only the size was compared (--deep hashes them)" in out
    code, _, err = verify(capsys, "--deep")
    assert code == 3 and "train-00001.tar: not the file that" in err
    check_commands(err)
    tar = index.with_name("train-00001.tar")
    put(tar, tar.read_bytes()[:-512])
    assert verify(capsys)[0] == 3, "another size is found without hashing"


# --- tampering --------------------------------------------------------------------------------------------------------


def _differs(file: str) -> str:
    artefact = file.partition("/")[0]
    return (
        rf"{file}: rebuilt from the same records, it differs; to mend: snakemake {artefact} --cores all "
        rf"--forcerun make_{artefact}\n"
    )


@pytest.mark.parametrize("change", PLANTS, ids=lambda change: "-".join(map(str, change.values())))
def test_tampering_is_found_at_its_link(change: dict[str, Any], r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(r, change)
    file = next(found[0] if isinstance(found, list) else found for found in change.values() if found is not True)
    if "said" not in change or "only" in change:
        _only(r, change.get("only", file.partition("/")[0]))
    code, out, err = verify(capsys)
    assert code == 3, out
    said = change["said"] if "said" in change else _differs(file)
    assert err.count("\n") == 1 and re.search(said, err), err
    check_commands(err)


@pytest.mark.parametrize("damage", [flip, Path.unlink])
@pytest.mark.parametrize(
    ("call", "file"),
    [
        ("make table1", f"probe/{MDC}/items.parquet"),
        (f"probe probe/{MDC} --cache cache", f"runs/{MDC}/checkpoint.safetensors"),
        (f"caption --run {MDC}/ft-tuned photo.png", f"runs/{MDC}/ft-tuned/best.safetensors"),
    ],
)
@pytest.mark.parametrize("named", [SCALE, "mini"])
def test_a_call_that_reads_a_damaged_file_tells_what_verify_tells(
    call: str, file: str, damage: Callable[[Path], None], named: str, r: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _only(r, "table1")
    damage(r / file)
    put(Path("params.yaml"), Path("params.yaml").read_text().replace(f"scale: {SCALE}", f"scale: {named}"))
    assert main([*call.split(), "--scale", SCALE]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(r / file) in said
    _, _, err = verify(capsys, "--scale", SCALE)
    assert said.endswith(f"; to mend: {err.partition('to mend: ')[2].partition(' && ')[0].strip()}\n"), err
    assert (f"--config scale={SCALE}" in said) == (named != SCALE)


def test_what_was_made_since_is_not_thrown_away(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A training done anew is what its host file says; one changed by hand is not, and is not to be kept."""
    run = r / "runs" / MDC / "run.json"
    edit(run, lambda found: found["versions"].update(torch="99.0"))
    code, _, err = verify(capsys)
    assert code == 3 and err.endswith(f"to mend: snakemake {run} --cores all --forcerun {run}\n")
    edit(run.with_name("host.json"), lambda host: host.update(manifest_sha256=sha256_file(run)))
    code, _, err = verify(capsys)
    assert code == 3 and f"{run}: missing, or not the file" in err
    assert re.search(r"to mend: snakemake \S+ --cores all\n", err) and f"snakemake {run}" not in err, err


def test_a_log_written_since_is_for_the_figure_to_show(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another log_every writes another log of the same training; only a changed log asks for training again."""
    _only(r, "figure_loss")
    log = r / "runs" / MDC / "log.jsonl"
    put(log, "".join(log.read_text().splitlines(keepends=True)[1:]))
    edit(log.with_name("host.json"), lambda host: host.update(log_sha256=sha256_file(log)))
    code, _, err = verify(capsys)
    assert code == 3 and err.endswith("snakemake figure_loss --cores all --forcerun make_figure_loss\n")


def test_drawings_of_other_libraries_are_not_compared(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another version of a library may draw another line; the numbers beside it are compared still."""
    _only(r, "figure5")
    flip(r / "figure5/figure5.svg")
    edit(r / "figure5/figure5.json", lambda made: made["versions"].update(matplotlib="1.0"))
    seal(r, r / "figure5")
    assert verify(capsys)[0] == 0
    cell(r / "figure5/figure5.csv", "value")
    seal(r, r / "figure5")
    code, _, err = verify(capsys)
    assert code == 3 and re.search(_differs("figure5/figure5.csv"), err)


def test_times_of_another_call_are_not_compared(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A host file may be another one, or gone; what is counted beside its times is compared still."""
    _only(r, "table_cost")
    edit(r / "runs" / MDC / "host.json", lambda host: host.update(processor_seconds=99.0))
    (r / "runs" / CLIP / "host.json").unlink()
    assert verify(capsys)[0] == 0
    cell(r / "table_cost/table_cost_long.csv", "value")
    seal(r, r / "table_cost")
    code, _, err = verify(capsys)
    assert code == 3 and re.search(_differs("table_cost/table_cost_long.csv"), err)


@pytest.mark.slow
def test_any_changed_file_of_the_chain_is_found(r: Path) -> None:
    """One digit or bit of every file in turn, walked from its job and from all that reads this; of equal folders one."""
    missed, tried = [], 0
    once = {f"{layer}/{encoder}" for layer in ("runs", "probe") for encoder in (MDC, CLIP)}
    for job in PLAN.jobs:
        if job.startswith(("runs/", "probe/")) and job not in once | {"probe/untrained/ViT-T-12/cls/s0"}:
            continue
        readers = [job, *(name for name, other in PLAN.jobs.items() if job in other.inputs)]
        files = [path for path in (r / job).iterdir() if path.is_file()]
        files = [path for path in files if path.name not in ("log.jsonl", "host.json")]
        files += [r.parent / file for file in (f"{job}.json", *ARTEFACTS[job].files)] if job in ARTEFACTS else []
        for path in files:
            before = path.read_bytes()
            flip(path)
            tried += 1
            try:
                of_scale = chain.Chain("params.yaml")
                list(of_scale.check(of_scale.behind(readers)))
                if job in ARTEFACTS:
                    check_copies(of_scale, job)
                missed.append(path)
            except chain.Broken:
                pass
            put(path, before)
    assert missed == [] and tried > 100


# --- staleness --------------------------------------------------------------------------------------------------------


def change_params(change: Callable[[dict[str, Any]], Any]) -> None:
    found = small_project.values((0, 1))
    change(found)
    small_project.write_params(Path(), found)


STALE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a method": (
        lambda v: v["methods"]["mdc"].update(t_range=[0.3, 0.9]),
        r"runs/\S+/mdc/s0/run.json: stale: of runs/\S+/mdc/s0, method.t_range was \[0.5, 1.0\] and is now \[0.3, 0.9\]",
    ),
    "another row": (
        lambda v: v["tables"]["table1"]["corpora"].update(half=["mdc", "arc"]),
        "table1/table1.json: stale: of table1, inputs was",
    ),
}


@pytest.mark.parametrize("name", STALE)
def test_a_value_changed_since_is_named(name: str, r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, said = STALE[name]
    change_params(change)
    code, _, err = verify(capsys)
    assert code == 3 and re.search(said, err), err
    check_commands(err)


def test_a_corpus_changed_since_is_named(data_and_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_params(lambda v: v["data"]["corpora"]["alt"]["source"].update(seed=9))
    code, _, err = verify(capsys)
    assert code == 3 and "data/corpora/alt/made.json: stale: of data/corpora/alt, source.seed was 1 and is now 9" in err
    check_commands(err)


def test_what_decides_nothing_is_no_staleness(data_and_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_params(lambda v: v["pretrain"]["runtime"].update(save_every=7))
    assert verify(capsys)[0] == 0


CODE = {
    "mdc.data.shards.corpus_job": "data/corpora/alt",
    "mdc.methods.masked.loss": "runs/alt/ViT-T-12/mdc",
    ARTEFACTS["figure3"].module: "figure3",
}


@pytest.mark.parametrize("module", CODE)
def test_code_changed_since_is_named(
    module: str, r: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(*modules: str) -> str:
        return "0" * 64 if module in modules else fingerprint(*modules)

    monkeypatch.setattr(plans, "fingerprint", changed)
    code, _, err = verify(capsys)
    assert code == 3 and re.search(f"stale: the code of {CODE[module]}.* changed; to mend", err), err
    check_commands(err)


def test_no_hash_is_taken_twice_of_what_many_rest_on(
    data_and_models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every checkpoint and every shard is read once, however many tables and probes rest on it."""
    seen: list[str] = []

    def counted(path: str | Path) -> str:
        seen.append(str(path))
        return sha256_file(path)

    monkeypatch.setattr(chain, "sha256_file", counted)
    assert verify(capsys)[0] == 0
    assert len(seen) == len(set(seen))
    for suffix in ("safetensors", "tar", "npy"):
        files = {*data_and_models.rglob(f"*.{suffix}")}
        assert files and {Path(path) for path in seen if path.endswith(suffix)} == files


def test_every_record_names_what_was_asked_its_inputs_and_its_files(r: Path) -> None:
    """The chain of hashes, without `verify`."""
    folder = ScaleFolder(r)
    for name, job in PLAN.jobs.items():
        record = read_json(folder.record(name, job.verb))
        assert record["config"] == job.config(), name
        manifests = {other: folder.manifest(other, PLAN.jobs[other].verb) for other in job.inputs}
        assert record["inputs"] == {other: sha256_file(path) for other, path in manifests.items()}, name
        assert record["outputs"] == {file: sha256_file(folder.job(name) / file) for file in record["outputs"]}, name
        files = ARTEFACTS[name].files if name in ARTEFACTS else VERBS[job.verb].outputs
        assert set(files) - {"log.jsonl"} <= set(record["outputs"]), name
