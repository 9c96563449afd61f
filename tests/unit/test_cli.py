"""The command line: help everywhere, light to start, mistakes in one line with exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mdc.cli import build_parser, main
from mdc.config import load
from mdc.jobs import VERBS, vocabulary_config

ROOT = Path(__file__).resolve().parents[2]


def _mdc(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mdc.cli", *arguments], cwd=cwd, capture_output=True, text=True)


def test_every_verb_explains_itself() -> None:
    parser = build_parser()
    verbs = parser._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    assert set(VERBS) < set(verbs)
    for verb, sub in verbs.items():
        assert sub.description and len(sub.description) > 20, verb
        for action in sub._actions:
            assert action.help, f"{verb} {action.dest}"


def test_help_and_check_import_no_torch() -> None:
    code = (
        "import sys; from mdc.cli import main\n"
        "main(['check']); main(['config', 'table1'])\n"
        "assert not {'torch', 'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "params.yaml: good" in done.stdout


def test_config_prints_what_a_job_gets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["config", "list", "--scale", "paper"]) == 0
    names = capsys.readouterr().out.split()
    assert sum(name.startswith("runs/") for name in names) == 44
    assert main(["config", "runs/cc12m/ViT-L-14/arc/s0", "--scale", "paper"]) == 0
    config = json.loads(capsys.readouterr().out)
    assert config["recipe"]["clip_norm"] == 1.0 and config["recipe"]["lr"] == 4e-4


MISTAKES = [
    (["config", "runs/none"], "no job 'runs/none'"),
    (["check", "--scale", "huge"], "allowed: mini, flickr8k, paper"),
    (["check", "--params", "none.yaml"], "none.yaml: cannot be read"),
    (["corpus", "none.json", "--out", "x"], "none.json: no such file"),
    (["vocabulary", "none.json", "--out", "x"], "none.json: no such file"),
]


def test_a_configuration_of_another_job_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"verb": "pretrain"}))
    assert main(["corpus", str(tmp_path / "config.json"), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "not a configuration of `mdc corpus`" in said and said.count("\n") == 1


def test_a_place_that_cannot_be_written_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(vocabulary_config(load(ROOT / "params.yaml", "paper"))))
    (tmp_path / "file").write_text("not a folder")
    assert main(["vocabulary", str(tmp_path / "config.json"), "--out", str(tmp_path / "file/vocabulary.json")]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path / "file") in said and said.count("\n") == 1


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=lambda x: str(x)[:40])
def test_mistakes_end_in_one_line(arguments: list[str], said: str) -> None:
    done = _mdc(*arguments)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_corpus_that_is_not_there_names_mdc_data(tmp_path: Path) -> None:
    config = json.loads(_mdc("config", "data/corpora/single", "--scale", "flickr8k").stdout)
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = _mdc("corpus", str(tmp_path / "config.json"), "--out", str(tmp_path / "out"), cwd=tmp_path)
    assert done.returncode == 2 and "MDC_DATA" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out/index.json").exists()
