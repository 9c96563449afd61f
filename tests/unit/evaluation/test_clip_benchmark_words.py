"""What `mdc clip-benchmark` makes of its command line, and where a run is found."""

from pathlib import Path
from typing import Any

import pytest

from mdc.app import clip_benchmark
from mdc.app.cli import main
from mdc.app.find_run import run_folder
from mdc.plan.records import UserError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The runs that it loads, with their weights and task, instead of an evaluation of them."""
    from clip_benchmark import cli, models

    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(clip_benchmark, "run_folder", lambda name, params, scale: Path(name))
    monkeypatch.setattr(clip_benchmark, "benchmark_model", lambda folder, *more: found.append((str(folder), *more[:2])))

    def evaluate(base: Any) -> None:
        for model, weights in zip(base.model, base.pretrained, strict=True):
            models.TYPE2FUNC[base.model_type](model, weights, None, "cpu")

    monkeypatch.setattr(cli, "main_eval", evaluate)
    return found


@pytest.mark.parametrize("words", [["--task", "linear_probe"], ["--task=linear_probe"], ["--tas=linear_probe"]])
def test_a_linear_probe_is_known_however_it_is_written(
    asked: list[tuple[Any, ...]], words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["clip-benchmark", "eval", "--model", "a/b/clip/s0", "--pretrained=best", *words]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(command) == 2 and not asked
    assert "GPU only" in capsys.readouterr().err
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert main(command) == 0
    assert asked == [("a/b/clip/s0", "best", "linear_probe")]


def test_weights_are_the_last_ones_unless_others_are_named(asked: list[tuple[Any, ...]]) -> None:
    assert main(["clip-benchmark", "eval", "--model=r", "--task=zeroshot_retrieval"]) == 0
    assert main(["clip-benchmark", "eval", "--model", "r", "q", "--pretrained", "last", "best"]) == 0
    assert asked == [("r", "last", "zeroshot_retrieval"), ("r", "last", "auto"), ("q", "best", "auto")]


def test_what_it_does_not_know_ends_in_one_line(
    asked: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    for words, said in (
        (["--pretrained", "lsat"], "--pretrained lsat: a run has no such weights; allowed: last, best"),
        (["--task=linear_prob"], "invalid choice: 'linear_prob'"),
        (["--task"], "expected one argument"),
        (["--nonsense", "3"], "unrecognized arguments: --nonsense"),
    ):
        assert main(["clip-benchmark", "eval", "--model", "r", *words]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1 and not asked


# --- a run is found at any scale --------------------------------------------------------------------------------------


PARAMS = str(Path(__file__).resolve().parents[3] / "params.yaml")
RUN = "alt/tiny/mdc/s0"


def _run(scale: str, run: str = RUN) -> Path:
    folder = Path("results") / scale / "runs" / run
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    return folder


def test_found_at_its_own_scale_or_the_only_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="none yet"):
        run_folder(RUN, PARAMS, None)
    scenes = _run("scenes")
    for name in (RUN, f"runs/{RUN}", str(scenes)):
        assert run_folder(name, PARAMS, None) == scenes
    assert run_folder(RUN, PARAMS, "scenes") == scenes
    with pytest.raises(UserError, match="scale paper has no such run, but scenes"):
        run_folder(RUN, PARAMS, "paper")
    _run("flickr8k")
    with pytest.raises(UserError, match=r"flickr8k, scenes have; choose by scale"):
        run_folder(RUN, PARAMS, None)
    mini = _run("mini")  # the one that params.yaml names
    assert run_folder(RUN, PARAMS, None) == mini
    with pytest.raises(UserError, match=RUN):
        run_folder("alt/tiny/arc/s0", PARAMS, None)
