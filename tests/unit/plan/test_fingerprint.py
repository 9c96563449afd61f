"""The fingerprint: code changes change it, comments do not, and it covers what a job really imports."""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import small_project
from small_project import SCALE

import mdc.plan.fingerprint as fp
from mdc.app.cli import main
from mdc.plan import parts
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.kinds.backbones import Backbone, VisualContext
from mdc.plan.config.kinds.heads import LINEAR
from mdc.plan.config.kinds.kind import of_extensions
from mdc.plan.config.kinds.known import CHOICES, CORPORA, DISTORTIONS, HEADS, PROBES
from mdc.plan.config.kinds.sources import CaptionList
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import write_json
from mdc.plan.verbs import VERBS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: None) -> Path:
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "a.py").write_text('"""Doc."""\nfrom mdc.b import f\n\ndef g():\n    """Doc."""\n    return f() + 1\n')
    (tmp_path / "b.py").write_text("def f():\n    import mdc.c\n    return 1\n")
    (tmp_path / "c.py").write_text("X = 1\n")
    (tmp_path / "unused.py").write_text("Y = 1\n")
    monkeypatch.setattr(fp, "ROOT", tmp_path)
    return tmp_path


def _print(module: str) -> str:
    _forget()
    return fp.fingerprint(module)


def _forget() -> None:
    for cached in (fp.fingerprint, fp.closure, fp.module_file, fp._read):
        cached.cache_clear()


@pytest.fixture
def clean() -> Iterator[None]:
    yield
    _forget()


def test_what_changes_it(package: Path) -> None:
    before = _print("mdc.a")
    assert fp.closure("mdc.a") == ["mdc", "mdc.a", "mdc.b", "mdc.c"]
    a = package / "a.py"
    a.write_text('"""Other doc."""\nfrom mdc.b import f  # a comment\n\n\ndef g():\n    return (f() + 1)\n')
    assert _print("mdc.a") == before, "comments, docstrings and line breaks rerun nothing"
    (package / "unused.py").write_text("Y = 2\n")
    assert _print("mdc.a") == before
    (package / "c.py").write_text("X = 2\n")
    assert _print("mdc.a") != before, "a module imported inside a function counts"


def test_a_data_file_that_a_module_names_counts(package: Path) -> None:
    (package / "look.css").write_text("a {}")
    (package / "c.py").write_text('DATA_FILES = ("look.css",)\n')
    before, other = _print("mdc.a"), _print("mdc.unused")
    assert fp.data_files("mdc.c") == ("look.css",) and fp.data_files("mdc.a") == ()
    (package / "look.css").write_text("a { color: red }")
    assert _print("mdc.a") != before
    assert _print("mdc.unused") == other


def test_an_edited_template_makes_the_tables_anew_and_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: None
) -> None:
    shutil.copytree(fp.ROOT, tmp_path / "mdc", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fp, "ROOT", tmp_path / "mdc")
    tables = [f"mdc.report.tables.{table}" for table in ("table1", "method_table", "table9", "recipes")]
    modules = [*tables, "mdc.report.figures.accuracy_panels", "mdc.training.run"]
    before = {module: _print(module) for module in modules}
    for file in fp.data_files("mdc.report.tables.render"):
        text = (tmp_path / "mdc" / file).read_text()
        (tmp_path / "mdc" / file).write_text(f"{text}\n")
        assert [module for module in modules if _print(module) != before[module]] == tables, file
        (tmp_path / "mdc" / file).write_text(text)


def test_what_an_earlier_call_read_is_parsed_again_only_if_its_bytes_changed(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place/sources.json"
    parsed: list[object] = []
    place.parent.mkdir()
    real = fp._parsed

    def counted(tree: ast.Module) -> object:
        parsed.append(tree)
        return real(tree)

    monkeypatch.setattr(fp, "_parsed", counted)

    def read() -> tuple[str, int]:
        parsed.clear()
        monkeypatch.setattr(fp, "_sources", {})
        with fp.remembered(place):
            return _print("mdc.a"), len(parsed)

    before, first = read()
    assert first == 4 and read() == (before, 0)
    (package / "c.py").write_text("X = 2\n")
    after, again = read()
    assert after != before and again == 1 and read() == (after, 0)
    place.write_text("{")
    assert read() == (after, 4)


def test_what_only_a_type_checker_imports_is_not_covered(package: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mdc.unused\nelse:\n    import mdc.b\n"
    (package / "d.py").write_text(text)
    assert fp.closure("mdc.d") == ["mdc", "mdc.b", "mdc.c", "mdc.d"]


def test_imports_are_found_wherever_they_stand(package: Path) -> None:
    (package / "d.py").write_text(
        "class A:\n    def f(self):\n        try:\n            pass\n        except KeyError:\n            import mdc.a\n"
        "        match self:\n            case 1:\n                with x:\n                    from mdc import unused\n"
    )
    assert fp.imports("mdc.d") == {"mdc", "mdc.a", "mdc.unused"}


#: objective → the modules of its abilities
ABILITIES_OF = {name: import_module(f"{folder}.method").METHOD.abilities for name, folder in parts.METHODS.items()}
MDC, ARC, CLIP = (f"runs/alt/ViT-T-12/{method}/s0" for method in ("mdc", "arc", "clip"))
#: job → the parts that it loads by name
PARTS = {
    "data/corpora/alt": {CORPORA["scenes"].module},
    "data/probes/shape": {PROBES["scenes"].module},
    "data/choices/relation": {CHOICES["scenes"].module},
    "data/vocabularies/words": set(),
    MDC: {ABILITIES_OF["masked"]["train"]},
    ARC: {ABILITIES_OF["autoregressive"]["train"]},
    CLIP: {ABILITIES_OF["contrastive"]["train"]},
    "runs/alt/cnn/lstm/s0": {ABILITIES_OF["recurrent"]["train"], "mdc.extensions.blog.residual"},
    "runs/alt/on-objects/mdc/s0": {ABILITIES_OF["masked"]["train"], "mdc.extensions.blog.regions"},
    "probe/alt/cnn/lstm/s0": {parts.ABILITIES["encode"], LINEAR, "mdc.extensions.blog.residual"},
    "runs/described/on-codes/mcd/s0": {ABILITIES_OF["mask_and_replace"]["train"]},
    "probe/alt/ViT-T-12/mdc/s0": {parts.ABILITIES["encode"], LINEAR},
    "probe/alt/ViT-T-12/mdc/s0/knn": {parts.ABILITIES["encode"], HEADS["knn"].module},
    "probe/untrained/ViT-T-12/cls/s0": {parts.ABILITIES["encode"], LINEAR},
    **{name: {ARTEFACTS[name].module} for name in small_project.values()["tables"]},
}
PARTS["table_cost"] |= {ABILITIES_OF["masked"]["train"], ABILITIES_OF["contrastive"]["train"]}  # whose steps it counts
#: a table that is built on another's module
BUILT_ON = {"table_splits": {ARTEFACTS["table3"].module}}
KINDS = (CORPORA, PROBES, CHOICES, HEADS)
#: every part that some job loads by name
ALL_PARTS = {one.module for kind in (*KINDS, ARTEFACTS) for one in kind.values()} | {CaptionList.module, LINEAR}
ALL_PARTS |= {module for named in (*ABILITIES_OF.values(), parts.ABILITIES) for module in named.values()}
ALL_PARTS |= {one.module for one in (*of_extensions(Backbone), *of_extensions(VisualContext), *DISTORTIONS.values())}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_project.plan()


def covered(plan: Plan, job: str) -> set[str]:
    """The modules that the fingerprint of a job covers, by the plan that made it."""
    modules = (*sorted(PARTS[job]), VERBS[plan.jobs[job].verb].module)
    assert plan.jobs[job].fingerprint == fp.fingerprint(*modules), "the plan takes other modules"
    return set(fp.closure(*modules))


@pytest.fixture(scope="module")
def loaded(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules that each job really loads, in a process of its own."""
    root = tmp_path_factory.mktemp("small")
    folder, calls = ScaleFolder(root / "results" / SCALE), {}
    write_json(root / "runtime.json", {"workers": 0, "log_every": 1})
    for name, job in plan.jobs.items():
        write_json(folder.config(name), job.config())
        places = {"folder": folder.root, "out": folder.job(name), "state": root / "state" / name}
        places |= {"cache": root / "cache", "config": folder.config(name)}
        places |= {"runtime": root / "runtime.json"} if job.verb == "pretrain" else {}
        calls[name] = {"verb": job.verb, **{option: str(path) for option, path in places.items()}}
    (root / "plan.json").write_text(json.dumps(calls))
    command = [sys.executable, str(ROOT / "tests/support/loaded_modules.py"), "plan.json", "told.json"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {job: set(names) for job, names in json.loads((root / "told.json").read_text()).items()}


@pytest.mark.slow
@pytest.mark.parametrize("job", PARTS)
def test_covers_what_a_job_really_loads(plan: Plan, loaded: dict[str, set[str]], job: str) -> None:
    found = covered(plan, job)
    assert PARTS[job] <= loaded[job] and VERBS[plan.jobs[job].verb].module in loaded[job]
    # mdc._open_clip is OpenCLIP's own code, loaded by mdc.models.open_clip_parts
    assert {
        name for name in loaded[job] if not fp.left_out(name) and "._open_clip" not in name and _has_code(name)
    } <= found


def _has_code(module: str) -> bool:
    """Whether there is more in a module than its docstring; packages of methods have none."""
    path = fp.module_file(module)
    return path is None or len(ast.parse(path.read_text(encoding="utf-8")).body) > 1


@pytest.mark.parametrize("job", PARTS)
def test_covers_no_other_objective_kind_ability_or_artefact(plan: Plan, job: str) -> None:
    assert covered(plan, job) & ALL_PARTS == PARTS[job] | BUILT_ON.get(job, set())


def test_what_is_left_out_computes_nothing() -> None:
    """No module that is left out imports one that is covered, but for records, data_folder, estimators and hashes of code."""
    names = [".".join(["mdc", *path.relative_to(fp.ROOT).with_suffix("").parts]) for path in fp.ROOT.rglob("*.py")]
    left_out = [name.removesuffix(".__init__") for name in names if fp.left_out(name.removesuffix(".__init__"))]
    assert len(left_out) > 10
    others = {other for name in left_out for other in fp.imports(name) if not fp.left_out(other)}
    places = {"mdc.plan.records", "mdc.plan.data_folder"}
    assert (
        "mdc.plan.records" in others
        and others <= {"mdc", "mdc.plan", "mdc.plan.fingerprint", "mdc.plan.estimators"} | places
    )


@pytest.mark.parametrize(
    "file",
    [
        "app/init/seen.py",
        "report/seen.py",
        "report/templates/style.css",
        "report/templates/index.html.j2",
        "plan/new.py",
    ],
)
def test_another_folders_code_writes_no_results(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a copied project whose environment is still the other's. Equal code may run from elsewhere."""
    here = tmp_path / "src/mdc"
    shutil.copytree(ROOT / "src/mdc", here)
    (here / "plan/.#open.py").touch()  # as an editor leaves it
    monkeypatch.chdir(tmp_path)
    verbs = [
        "make none.json",
        "pretrain none.json --state s",
        "stage data --scale mini",
        "index",
        "accept-edit --reason x",
    ]

    def refused() -> list[bool]:
        codes = [main(verb.split()) for verb in verbs]
        assert 0 not in codes
        said = capsys.readouterr().err.splitlines()
        return [str(ROOT / "src/mdc") in line and "make setup" in line for line in said]

    assert refused() == [False] * len(verbs), "they lack other things"
    with (here / file).open("a") as more:
        more.write("\n")
    assert refused() == [True] * len(verbs)
    (here / file).unlink()
    assert refused() == [(ROOT / "src/mdc" / file).exists()] * len(verbs)
    (here / file).touch()
    assert main(["check"]) == 2 and "make setup" not in capsys.readouterr().err, "it writes nothing"
    monkeypatch.setenv(fp.COMPARED, "1")
    assert refused() == [False] * len(verbs), "their Snakemake has compared"
