"""Snakemake and DVC without their start: a server that has imported both, and forks for every call.

Most of a `snakemake` or `dvc` call on a toy project is the import of its packages. The scripts that `environment` makes
hand their arguments, folder, variables and open files to the server, and the fork runs the tool's own `main` there.
"""

import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STAND_IN = Path(__file__).with_name("stand_in_mdc.py")
REAL = "import sys\nfrom mdc.app.cli import main\nsys.exit(main())\n"
#: what the tools import once they work; the project's own package must not be among it
LATE = (
    *("pandas", "pydantic", "yte", "rich", "pyparsing", "pygit2"),
    *("dvc.repo.index", "dvc.repo.open_repo", "dvc.repo.plots", "dvc.repo.stage", "dvc.utils.strictyaml"),
    *("dvc.repo.experiments.executor.local", "dvc.repo.experiments.queue.tempdir"),
    *("dvc.repo.experiments.queue.workspace", "dvc_data.hashfile.db.local"),
)
CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    call = json.dumps([{tool!r}, sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(call)
    code = server.recv(1)
sys.exit(code[0] if code else 1)
"""


@contextmanager
def environment(folder: Path, stand_in: bool = True) -> Iterator[Path]:
    """Make an environment like the one that runs the tests, but with warm tools and with the stand-in `mdc`, in ``folder``.

    Yields its bin folder. Without ``stand_in``, `mdc` is the real one.
    """
    here = Path(sys.prefix)
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").symlink_to(here / "lib")
    (folder / "pyvenv.cfg").write_text((here / "pyvenv.cfg").read_text())
    python = folder / "bin/python"
    python.symlink_to(Path(sys.executable).resolve())
    plain = str(Path(sys.executable).resolve())
    # a socket's name must be short
    address = f"\0{folder}"[:100]
    scripts = {tool: CLIENT.format(python=plain, address=address, tool=tool) for tool in ("snakemake", "dvc")}
    scripts["mdc"] = f"#!{plain} -IS\n{STAND_IN.read_text()}" if stand_in else f"#!{python}\n{REAL}"
    for name, text in scripts.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    server = subprocess.Popen([python, __file__, address[1:]], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder / "bin"
    finally:
        server.terminate()
        server.wait()


def serve(address: str) -> None:
    """Import once, then fork for every call until terminated."""
    import dvc.cli
    import snakemake.cli

    for module in LATE:
        importlib.import_module(module)
    snakemake.cli.parse_args(["--dry-run"])  # imports the plug-ins
    dvc.cli.parse_args(["exp", "run"])  # … and the commands
    tools = {"snakemake": snakemake.cli.main, "dvc": dvc.cli.main}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{address}")
        listening.listen(16)
        print("ready", flush=True)
        while True:
            connection, _ = listening.accept()
            if os.fork():
                connection.close()
                with suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass
                continue
            listening.close()
            head, files, _, _ = socket.recv_fds(connection, 8, 3)
            wanted = int.from_bytes(head, "big")
            text = b""
            while len(text) < wanted:
                text += connection.recv(wanted - len(text))
            tool, arguments, cwd, variables = json.loads(text)
            for target, file in enumerate(files):
                os.dup2(file, target)
                os.close(file)
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(variables)
            sys.path[:0] = variables.get("PYTHONPATH", "").split(":")
            sys.argv = arguments
            code = 1
            try:
                code = tools[tool](*([arguments[1:]] if tool == "dvc" else [])) or 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                connection.sendall(bytes([code & 255]))
                os._exit(code & 255)


if __name__ == "__main__":
    serve(sys.argv[1])
