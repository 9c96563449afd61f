"""What all tests share: one thread a process, the slowest files first, and folders that are made once for all workers."""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
# a killed process loses nothing that it wrote, so tests see no difference, and a busy disk takes seconds
os.fsync = lambda descriptor: None

#: seconds of the files that take longest, by the marks that were asked for; `make test` and `make test-slow` write them
#: anew with MEASURE=--measure
DURATIONS = Path(__file__).with_name("durations.json")
LEAST = 4  # seconds; where a file of less is placed does not matter

Once = Callable[[str, Callable[[Path], object]], Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", action="store_true", help=f"write {DURATIONS.name}, by which files are ordered")


class Measured:
    """Sums the seconds of each file, and writes those of the slow ones."""

    def __init__(self, marks: str) -> None:
        self.marks = marks
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        slow = {file: round(seconds) for file, seconds in self.seconds.most_common() if seconds >= LEAST}
        DURATIONS.write_text(json.dumps({**json.loads(DURATIONS.read_text()), self.marks: slow}, indent=1) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--measure") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Measured(config.option.markexpr))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seconds = json.loads(DURATIONS.read_text()).get(config.option.markexpr, {})
    files = sorted(dict.fromkeys(map(_file, items)), key=lambda file: -seconds.get(file, 0))
    # the first makes what its folder shares, for which a second one of that folder would only wait
    elsewhere = [file for file in files if Path(file).parent != Path(files[0]).parent][:1]
    places = {file: place for place, file in enumerate(dict.fromkeys([*files[:1], *elsewhere, *files]))}
    items.sort(key=lambda item: places[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Once:
    """``once(name, make)``: a folder that ``make`` filled, once for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    base = base if worker_id == "master" else base.parent

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, new = base / name, base / f"{name}.new"
        with (base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                new.mkdir()
                make(new)
                new.rename(folder)
        return folder

    return made
