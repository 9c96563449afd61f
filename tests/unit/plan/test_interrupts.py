"""Signals: the first is taken note of, a second one ends the process, and none is lost."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mdc.plan.processes.interrupts import Interrupted, Interrupts

BOTH = [signal.SIGINT, signal.SIGTERM]


def _child(number: signal.Signals, between: str) -> int:
    """How a process ends in whose block the signal comes twice."""
    code = (
        "import signal; from mdc.plan.processes import interrupts\n"
        f"{between}\n"
        "with interrupts.Interrupts() as found:\n"
        f" signal.raise_signal({number.value}); signal.raise_signal({number.value})\n"
        f" assert found.number == {number.value}\n"
        " raise interrupts.Interrupted('left', found.number)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode


@pytest.mark.parametrize("number", BOTH)
def test_a_second_signal_ends_the_process_unless_it_is_an_echo_of_the_first(number: signal.Signals) -> None:
    assert _child(number, "interrupts._ONE = 0") == -number
    assert _child(number, "") == 1, "its own exception"


@pytest.fixture
def pythons_own() -> Iterator[None]:
    """A test of torchrun leaves its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_that_the_block_does_not_answer_acts_at_its_end(pythons_own: None) -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interrupts():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("of another kind")
    with pytest.raises(Interrupted), Interrupts() as found:
        signal.raise_signal(signal.SIGINT)
        raise Interrupted("", found.number)
