"""What every sandbox promises, whatever it isolates."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from types import FrameType

import pytest
from jobs import SLEEPER, Desk, marker, running

from heal_core.errors import SandboxError
from heal_core.sandbox import REPORT_FD
from heal_core.sandbox._supervise import OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES, REPORT_BYTES

# Starts a daemon that has sys.argv[1] among its arguments: forked twice, in a session of its own, nothing open, deaf to
# the polite signals.
DAEMON = """
import os, signal, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.set_inheritable(write, True)
        code = "import os, sys, time; os.write(int(sys.argv[2]), b'up'); os.closerange(0, 1000); time.sleep(60)"
        os.execv(sys.executable, [sys.executable, "-I", "-c", code, sys.argv[1], str(write)])
    os._exit(0)
os.wait()
os.close(write)
assert os.read(read, 2) == b"up"
"""


# -- how a job ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os._exit(255)", 255),
        ("import os; os.kill(os.getpid(), 6)", 128 + 6),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
    ],
)
def test_the_exit_status_is_the_programs_own_and_128_plus_n_after_a_signal(desk: Desk, code: str, status: int) -> None:
    done = desk.python(code)

    assert (done.exit_status, done.timed_out, done.output) == (status, False, b"")


@pytest.mark.parametrize("program", ["/no/such/program", "/etc/passwd", "no-such-program"])
def test_a_program_that_cannot_be_started_is_a_sandbox_error(desk: Desk, program: str) -> None:
    with pytest.raises(SandboxError, match="could not"):
        desk.run(program)


def test_a_working_directory_that_is_not_there_is_a_sandbox_error_that_names_it(desk: Desk) -> None:
    with pytest.raises(SandboxError, match="absent"):
        desk.python("pass", subfolder="absent")


def test_a_program_that_itself_ends_with_the_shells_status_for_not_found_has_run(desk: Desk) -> None:
    done = desk.python("print('prlimit? bwrap? no.'); raise SystemExit(127)")

    assert done.exit_status == 127


# -- what comes back -----------------------------------------------------------------------------------------------


def test_both_streams_come_back_in_order_byte_for_byte(desk: Desk) -> None:
    done = desk.python("import os; os.write(1, bytes(range(256))); os.write(2, b'\\xff\\xfe'); os.write(1, b'end')")

    assert done.output == bytes(range(256)) + b"\xff\xfe" + b"end"


def test_of_long_output_the_head_and_the_tail_are_kept_and_what_is_left_out_is_counted(desk: Desk) -> None:
    done = desk.python("import os\nfor n in range(300): os.write(1, b'%09d.' % n * 1000)")

    kept = OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES
    assert done.output.startswith(b"000000000." * 1000 + b"000000001.")
    assert done.output.endswith(b"000000299." * 1000)
    assert b"\n[... %d bytes left out ...]\n" % (3_000_000 - kept) in done.output
    assert kept < len(done.output) < kept + 100


def test_output_that_just_fits_is_whole(desk: Desk) -> None:
    done = desk.python(f"import os, sys; sys.stdout.write('x' * {OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES})")

    assert done.output == b"x" * (OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES)


def test_the_report_comes_back_apart_from_the_output(desk: Desk) -> None:
    done = desk.python(f"import os; os.write(int(os.environ[{REPORT_FD!r}]), b'\\xffreport'); print('output')")

    assert (done.report, done.output, done.overflowed) == (b"\xffreport", b"output\n", False)


def test_a_report_that_is_too_long_is_cut_and_said_to_be(desk: Desk) -> None:
    code = f"import os\nfor _ in range(65): assert os.write(int(os.environ[{REPORT_FD!r}]), bytes(1_000_000))"
    done = desk.python(code)

    assert (len(done.report), done.overflowed, done.exit_status) == (REPORT_BYTES, True, 0)


def test_the_report_pipe_does_not_go_on_to_what_the_program_starts(desk: Desk) -> None:
    code = f"""
import os, subprocess
os.set_inheritable(int(os.environ[{REPORT_FD!r}]), False)
subprocess.run(["/bin/sh", "-c", "echo forged >&${REPORT_FD}"], close_fds=False)
"""
    assert desk.python(code).report == b""


# -- what a job is given -------------------------------------------------------------------------------------------


def test_the_environment_is_the_given_one_with_home_tmpdir_path_and_the_report(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    done = desk.run("/usr/bin/env", "-0", environ={"GIVEN": "a=b\nc", "HOME": "/given"})

    environ = dict(row.split("=", 1) for row in done.output.decode().split("\0") if row)
    assert environ.pop("GIVEN") == "a=b\nc"
    assert environ.pop("PWD", str(desk.repository)) == str(desk.repository)  # which bwrap sets, as a shell does
    assert environ.keys() == {"HOME", "TMPDIR", "PATH", REPORT_FD}
    assert environ["HOME"] not in ("/given", os.environ["HOME"])


def test_the_programs_own_folder_comes_first_on_the_path_then_the_systems(desk: Desk) -> None:
    done = desk.python("import os; print(os.environ['PATH'])")

    assert done.output.decode().strip().split(":")[1:] == ["/usr/local/bin", "/usr/bin", "/bin"]


def test_home_is_empty_and_writable(desk: Desk) -> None:
    code = "import os; home = os.path.expanduser('~'); print(os.listdir(home)); open(home + '/file', 'w').close()"
    done = desk.python(code)

    assert (done.output, done.exit_status) == (b"[]\n", 0)


def test_nothing_that_one_job_wrote_outside_the_workspace_is_there_for_the_next(desk: Desk) -> None:
    code = """
import os, tempfile
for folder in (os.environ['HOME'], tempfile.gettempdir(), os.environ['TMPDIR']):
    print(os.listdir(folder).count('left'))
    open(os.path.join(folder, 'left'), 'w').close()
"""
    desk.python(code)

    assert desk.python(code).output.split()[0] == b"0"
    assert not Path("/tmp/left").exists()


def test_the_working_directory_is_the_subfolder_of_the_workspace(desk: Desk) -> None:
    (desk.workspace / "pkg" / "größe").mkdir(parents=True)
    done = desk.python("import os; print(os.getcwd()); open('made', 'w').close()", subfolder="pkg/größe")

    assert done.output.decode().strip() == str(done.root / "pkg" / "größe")
    assert (desk.workspace / "pkg" / "größe" / "made").exists()
    assert done.root == (desk.repository if desk.sandbox.isolates else desk.workspace)


@pytest.mark.parametrize(
    "stdin", [b"", b"\0\xff\n", b"x" * 3_000_000], ids=["nothing", "bytes", "more than a pipe holds"]
)
def test_standard_input_is_what_is_given_and_then_ends(desk: Desk, stdin: bytes) -> None:
    code = "import hashlib, sys; print(hashlib.sha1(sys.stdin.buffer.read()).hexdigest())"
    assert desk.python(code, stdin=stdin).output.decode().strip() == hashlib.sha1(stdin).hexdigest()


def test_no_file_that_selfheal_has_open_is_open_in_the_job(desk: Desk) -> None:
    read, write = os.pipe()
    os.set_inheritable(read, True)
    try:
        done = desk.python(
            f"import os; print(*(f for f in os.listdir('/proc/self/fd') if f != os.environ[{REPORT_FD!r}]))"
        )
    finally:
        os.close(read)
        os.close(write)

    assert done.output.split() == [b"0", b"1", b"2", b"3"]  # the last is the listing's own


def test_one_process_may_not_use_more_memory_than_the_limit(desk: Desk) -> None:
    desk.limits = type(desk.limits)(20, 512, 256)
    done = desk.python("bytearray(600_000_000)")

    assert done.output.strip().endswith(b"MemoryError")


# -- the end of all of it ------------------------------------------------------------------------------------------


def test_the_time_limit_ends_the_program_and_what_it_started(desk: Desk) -> None:
    word = marker(desk)
    code = SLEEPER + "print('up', flush=True); subprocess.Popen(sleeper); subprocess.run(sleeper)"
    done = desk.python(code, word, seconds=2)

    assert (done.timed_out, done.output, done.exit_status) == (True, b"up\n", 128 + signal.SIGKILL)
    assert 2 <= done.seconds < 10
    assert running(word) == []


def test_the_time_limit_ends_a_program_that_stopped_itself(desk: Desk) -> None:
    done = desk.python("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", seconds=0.6)

    assert done.timed_out


def test_what_the_program_leaves_running_is_gone_at_once_and_is_not_waited_for(desk: Desk) -> None:
    """Each of them keeps the output open, so that its end is never seen."""
    word = marker(desk)
    done = desk.python(SLEEPER + "[subprocess.Popen(sleeper) for _ in range(12)]; print('done')", word)

    assert running(word) == []
    assert (done.exit_status, done.timed_out, done.output) == (0, False, b"done\n")
    assert done.seconds < 10


def test_a_daemon_that_left_the_session_is_gone_at_once(desk: Desk) -> None:
    word = marker(desk)
    done = desk.python(DAEMON, word)

    assert running(word) == []
    assert (done.exit_status, done.timed_out, done.output) == (0, False, b"")


def test_a_daemon_is_gone_after_the_time_limit_too(desk: Desk) -> None:
    word = marker(desk)
    done = desk.python(DAEMON + "time.sleep(60)", word, seconds=2)

    assert running(word) == []
    assert done.timed_out


def test_processes_left_behind_that_never_stop_printing_do_not_hang_the_run(desk: Desk) -> None:
    word = marker(desk)
    code = """
import os, sys, time
flood = "import os\\nwhile True: os.write(1, bytes(4096))"
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
        os.execv(sys.executable, [sys.executable, "-I", "-c", flood, sys.argv[1]])
time.sleep(0.5)
"""
    done = desk.python(code, word, seconds=15)

    assert running(word) == []
    assert (done.exit_status, done.timed_out) == (0, False)
    assert done.seconds < 10


def test_ctrl_c_leaves_no_process_no_file_and_no_descriptor(desk: Desk, scratch: Path) -> None:
    word = marker(desk)

    def interrupt_when_up(number: int, frame: FrameType | None) -> None:
        if len(running(word)) > 2:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = os.listdir("/proc/self/fd")
    old = signal.signal(signal.SIGALRM, interrupt_when_up)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            desk.python(SLEEPER + "subprocess.Popen(sleeper, start_new_session=True); subprocess.run(sleeper)", word)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)

    assert running(word) == []
    assert list(scratch.iterdir()) == []
    assert os.listdir("/proc/self/fd") == before


def test_many_runs_open_nothing_that_stays_open(desk: Desk) -> None:
    desk.run("/bin/true")
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        desk.run("/bin/true")

    assert os.listdir("/proc/self/fd") == before
