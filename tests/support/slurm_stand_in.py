"""Stands for SLURM's commands: `slurm_stand_in.py sbatch …` and so on. Its queue is the folder that SLURM_STAND_IN names.

sbatch takes a job as the executor plugin hands it over, writes down what was asked for, and runs it at once in the
background, as a node would, with the ids of its GPUs in the environment.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

QUEUE = Path(os.environ.get("SLURM_STAND_IN", ""))
SHORT = {"-t": "--time", "-A": "--account", "-p": "--partition", "-D": "--chdir", "-C": "--constraint"}
FLAGS = {"--parsable", "--requeue"}


def options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Long options (with = or a word of their own) and what follows them."""
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        name = SHORT.get(name, name)
        if not equals and name not in FLAGS:
            value = rest.pop(0)
        found[name] = value
    return found, rest


def sbatch(arguments: list[str]) -> None:
    asked, rest = options(arguments)
    if rest:
        sys.exit(f"sbatch: error: what is {rest}?")
    number = str(1 + len(list(QUEUE.glob("*.json"))))
    waits = "SLURM_STAND_IN_ONLY_QUEUES" in os.environ
    state = QUEUE / f"{number}.state"
    state.write_text("PENDING" if waits else "RUNNING")
    new = QUEUE / f"{number}.new"
    new.write_text(json.dumps(asked))
    new.replace(QUEUE / f"{number}.json")
    print(number, flush=True)
    if waits or os.fork():
        return
    os.setsid()
    gpus = int(asked.get("--gpus", 0))
    environment = {**os.environ, "SLURM_JOB_ID": number, "SLURM_CPUS_PER_TASK": asked["--cpus-per-task"]}
    if gpus:
        environment |= {"SLURM_GPUS": str(gpus), "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))}
    with Path(asked["--output"].replace("%j", number)).open("w") as output:
        for descriptor in (0, 1, 2):
            os.dup2(output.fileno(), descriptor)
        (QUEUE / f"{number}.pid").write_text(str(os.getpid()))
        ended = subprocess.run(["sh", "-c", asked["--wrap"]], cwd=asked["--chdir"], env=environment)
    temporary = state.with_suffix(".new")
    temporary.write_text("FAILED" if ended.returncode else "COMPLETED")
    temporary.replace(state)


def sacct(arguments: list[str]) -> None:
    if "--format=JobIdRaw,State" in arguments:
        for path in QUEUE.glob("*.state"):
            print(f"{path.stem}|{path.read_text()}")


def srun(arguments: list[str]) -> None:
    """One task: the rest of the line."""
    while arguments[0].startswith("-"):
        arguments.pop(0)
    os.execvp(arguments[0], arguments)


def scancel(arguments: list[str]) -> None:
    for number in arguments:
        os.killpg(int((QUEUE / f"{number}.pid").read_text()), signal.SIGTERM)
        (QUEUE / f"{number}.state").write_text("CANCELLED")


def scontrol(arguments: list[str]) -> None:
    print("MinJobAge = 300 sec\nMaxArraySize = 1001")


def sacctmgr(arguments: list[str]) -> None:
    print("vision")


def sinfo(arguments: list[str]) -> None:
    print("gpu*")


def squeue(arguments: list[str]) -> None:
    pass


COMMANDS = {f.__name__: f for f in (sbatch, sacct, srun, scancel, scontrol, sacctmgr, sinfo, squeue)}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](sys.argv[2:])
