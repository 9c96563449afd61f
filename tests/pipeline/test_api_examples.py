"""The examples in the docstrings of what ``mdc.load`` gives, and the tour of docs/api.md, run on a run of the small project."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from small_project import MDC, TUNED

import mdc
from mdc.app import model as place

DOCS = Path(__file__).resolve().parents[2] / "docs/api.md"
SHOWN, SHOWN_TUNED = "dense/ViT-T-12/mdc/s0", "dense/ViT-T-12/mdc/s0/ft-described"
METHODS = ("encode", "score", "classify", "caption", "fill")


class SameKind(doctest.OutputChecker):
    """Another run has other numbers, texts and names, but as many of them."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return self.plain(want) == self.plain(got)

    @staticmethod
    def plain(output: str) -> str:
        output = re.sub(r"'[^']*'", "TEXT", output)
        return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "NUMBER", re.sub(r"runs/[^,]+", "RUN", output))


@pytest.fixture
def renamed(pictures: list[Path]) -> dict[str, str]:
    """What examples say → what is here: images, and the run."""
    names = ('"val-0000003.png"', '"val-0000004.png"', '"photo.jpg"')
    return {SHOWN_TUNED: TUNED, SHOWN: MDC} | {
        name: repr(str(file)) for name, file in zip(names, pictures, strict=True)
    }


def _here(text: str, renamed: dict[str, str]) -> str:
    for said, is_here in renamed.items():
        text = text.replace(said, is_here)
    return text


def test_every_docstrings_example_runs(renamed: dict[str, str]) -> None:
    model = mdc.load(MDC)
    tests = [test for test in doctest.DocTestFinder().find(place, "mdc") if test.examples]
    assert {test.name for test in tests} == {"mdc.load", *(f"mdc.Model.{name}" for name in METHODS)}
    runner = doctest.DocTestRunner(SameKind())
    for test in tests:
        for example in test.examples:
            assert not example.options, "none is skipped"
            example.source = _here(example.source, renamed)
        test.globs = {"mdc": mdc, "model": model}
        said: list[str] = []
        assert not runner.run(test, out=said.append).failed, "".join(said)


def test_the_tour_of_the_docs_runs_and_gives_what_it_says(renamed: dict[str, str]) -> None:
    block = re.search(r"(?m)^    import mdc\n(?:    .*\n|\n)+", DOCS.read_text(encoding="utf-8"))
    assert block is not None
    names: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for line in block[0].splitlines():
        code = _here(line.strip().partition("  #")[0], renamed).strip()
        if code.startswith("model."):
            given[re.split(r"[.(]", code)[1]] = eval(code, names)
        else:
            exec(code, names)
    assert sorted(given) == sorted(METHODS)
    assert given["encode"].dtype == torch.float32 and len(given["encode"]) == 2
    assert isinstance(given["caption"], str) and re.fullmatch("a .* cross", given["fill"])
    assert [one.error > 0 and bool(one.tokens) for one in given["score"]] == [True, True]
    assert given["classify"] in ("ring", "star")
    # each method has a row in the table of what it answers
    assert re.findall(r"(?m)^\| `(\w+)\(.*?\)` \|", DOCS.read_text(encoding="utf-8")) == list(METHODS)
