"""The examples of docs/adding.md and the pages behind it, run as they are printed, all in one copy of the package."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import small_project
import yaml
from data_samples import encoded
from pydantic import TypeAdapter
from shown import read_rows
from small_project import SCALE

from mdc.plan.records import read_json
from mdc.plan.registry.entry import RegistryEntry

ROOT = Path(__file__).resolve().parents[2]
PAGE = "\n".join(
    (ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("adding", "adding-data", "adding-tables")
)
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^\n)((?:^(?: {4}.*)?\n)+)", PAGE, re.M) if block.strip()]

QUOTED = '"letters"'

pytestmark = pytest.mark.slow


def block(*starts: str) -> str:
    """The one example that begins so."""
    found = [text for text in BLOCKS if text.lstrip("\n").startswith(starts)]
    assert len(found) == 1, (starts, len(found))
    return found[0].strip("\n") + "\n"


def entry(start: str) -> dict[str, Any]:
    """An entry of the page as it is read in params.yaml, whose anchors it may use."""
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(f"{text}\nentry:\n{textwrap.indent(block(start), '  ')}")["entry"])


def put(path: Path, after: str, text: str) -> None:
    """``text`` behind the line ``after``."""
    whole = path.read_text(encoding="utf-8")
    assert whole.count(after) == 1, (path, after)
    path.write_text(whole.replace(after, after + text), encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with everything that the page adds, and the jobs done of the tables that show it."""
    folder = tmp_path_factory.mktemp("adding")
    package = folder / "src/mdc"
    shutil.copytree(ROOT / "src/mdc", package, ignore=shutil.ignore_patterns("__pycache__"))
    for start in (
        '"""The parameters of ``opening``',
        '"""The objective ``opening``',
        '"""Captioned images in one folder',
        '"""What this folder adds',
        '"""Places are shown',
        '"""One row for each run',
    ):
        where = re.search(r"`src/(mdc/[\w/]+\.py)`:\n\n" + re.escape(f"    {start}"), PAGE)
        assert where is not None, start
        (folder / "src" / where[1]).parent.mkdir(exist_ok=True)
        (folder / "src" / where[1]).write_text(block(start), encoding="utf-8")
    (package / "extensions/mine/__init__.py").write_text('"""Mine."""\n', encoding="utf-8")
    kinds, listed = package / "extensions/mine/kinds.py", "KINDS = (SidecarCorpus,)"
    more = f"{block('class LeftToRight')}\n\nKINDS = (SidecarCorpus, LeftToRight)"
    text = kinds.read_text(encoding="utf-8").replace(listed, more)
    own = "\nfrom mdc.plan.config.kinds.unmasking_order import UnmaskingOrder\n\n\nclass"
    text = text.replace("\n\n\nclass", own, 1)
    kinds.write_text(text, encoding="utf-8")
    metrics = package / "evaluation/metrics/each.py"
    put(metrics, "    return caption.seen\n", f"\n\n{block('@each')}")
    put(metrics, '    "words": "words",\n', f"    {block(f'{QUOTED}: {QUOTED}')}")

    values = small_project.values()
    values["methods"] |= {**entry("arc_opening:"), **entry("mdc_20_70:")}
    values["data"]["corpora"] |= entry("mine: {label: Mine, vocabulary: mine, source: {kind: sidecar")
    values["data"]["vocabularies"]["mine"] = ["mine"]
    tables = values["tables"]
    tables["table1"]["corpora"] |= {
        "alt": [*tables["table1"]["corpora"]["alt"], "arc_opening"],
        "mine": ["arc_opening"],
    }
    tables["table5"]["corpora"]["alt"].insert(0, "mdc_20_70")
    tables |= entry("tables:\n  table_runs")["tables"] | entry("tables:\n  table_mine")["tables"]
    values["artefacts"] += ["table_runs", "table_mine"]
    values["captions"]["systems"] |= entry("systems:\n  mdc_left")["systems"]
    tables["table3"]["systems"].append("mdc_left")
    small_project.write_params(folder, values)
    pictures = folder / "data/mine"
    pictures.mkdir(parents=True)
    for i in range(40):
        (pictures / f"{i}.jpg").write_bytes(encoded(i, 32, 32, "jpeg"))
        (pictures / f"{i}.txt").write_text(f"picture number {i}")
    code = (
        "from mdc.plan.config.read import load\nfrom mdc.plan.jobs.plan import Plan\nfrom small_project import do_jobs\n"
        "plan, tables = Plan(load('params.yaml')), {'table1', 'table3', 'table5', 'table_runs', 'table_mine'}\n"
        "needed = tables.union(*map(plan.ancestors, tables))\n"
        "do_jobs(plan, [job for job in plan.jobs if job in needed])\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{Path(small_project.__file__).parent}",
        "MDC_DATA": "data",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "results" / SCALE


def test_the_methods_are_trained_and_shown(made: Path) -> None:
    table = (made / "table1/table1_long.csv").read_text(encoding="utf-8")
    assert "ARC, first eight tokens" in table
    assert "[0.2, 0.7]" in (made / "table5/table5.csv").read_text(encoding="utf-8")
    opening, arc = (read_json(made / f"runs/alt/ViT-T-12/{name}/s0/run.json") for name in ("arc_opening", "arc"))
    assert opening["loss"] != arc["loss"] and opening["config"]["fingerprint"] != arc["config"]["fingerprint"]


def test_the_source_is_trained_on(made: Path) -> None:
    index = read_json(made / "data/corpora/mine/index.json")
    assert sum(split["samples"] for split in index["splits"].values()) == 40 and index["skipped"] == {}
    assert (made / "runs/mine/ViT-T-12/arc_opening/s0/run.json").is_file()


def test_the_captions_are_written_and_measured(made: Path) -> None:
    rows = parquet.read_table(
        made / "captions/alt/ViT-T-12/mdc/s0/ft-tuned/best/described/captions.parquet"
    ).to_pylist()
    left = [row for row in rows if row["system"] == "mdc_left"]
    assert left and all(row["step"] == sorted(row["step"]) for row in left)
    assert any(row["step"] != sorted(row["step"]) for row in rows if row["system"] == "mdc_6")
    table = read_rows(made / "table3/table3_long.csv")
    found = {row["method"]: float(row["value"]) for row in table if row["column"] == "letters"}
    letters = [len(row["caption"]) for row in left]
    assert found["MDC · left to right · 6"] == pytest.approx(sum(letters) / len(letters), abs=0.01) and "ARC" in found


def test_the_table_has_a_row_for_each_run(made: Path) -> None:
    rows = read_rows(made / "table_runs/table_runs.csv")
    runs = [path.parent.relative_to(made).as_posix() for path in made.glob("runs/*/*/*/s0/run.json")]
    assert sorted(row["run"] for row in rows) == sorted(runs) and len(runs) > 7
    assert read_json(made / "table_runs/table_runs.json")["outputs"].keys() == {"table_runs.csv"}


def test_one_more_of_a_kind_has_its_own_title(made: Path) -> None:
    page = (made / "table_mine/table_mine.md").read_text(encoding="utf-8")
    assert "What the first tokens teach" in page and "ARC, first eight tokens" in page


def test_the_registry_entry_is_one() -> None:
    ((name, values),) = yaml.safe_load(block("my_pairs:")).items()
    assert TypeAdapter(RegistryEntry).validate_python({"name": name, **values}).ways == ("urls",)
    dataset = yaml.safe_load(block("datasets:\n  my_pairs"))
    assert dataset["corpora"]["my_pairs"]["source"] == {"kind": "pairs", "dataset": "my_pairs", "val_fraction": 0.01}
