"""When the disk fails, the context says so by the file's name, and no half file is left."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from programs import forked, said_first, started, wait_for

torch = pytest.importorskip("torch")

import tensortap as tt  # noqa: E402
from tensortap.spy import DebugContext, TensorSaver, spy_save  # noqa: E402


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the system refuse to make any file larger; Python ignores the signal."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def all_load(folder: Path) -> int:
    files = list(folder.glob("*.pt"))
    for file in files:
        torch.load(file, weights_only=True)
    return len(files)


def test_a_full_disk_is_an_error_of_the_context_that_names_the_file(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    with (  # noqa: PT012
        files_of_at_most(100_000),
        pytest.raises(OSError, match=r"manual\.big\.call0\.pt.*File too large"),
        DebugContext(saver),
    ):
        spy_save("small", torch.ones(10))
        spy_save("big", torch.ones(100_000))
        spy_save("after", torch.ones(10))
    assert sorted(os.listdir(tmp_path)) == ["manual.after.call0.pt", "manual.small.call0.pt"]
    assert all_load(tmp_path) == 2


def test_save_itself_raises_at_once(tmp_path: Path) -> None:
    with files_of_at_most(1000), pytest.raises(OSError, match=r"big\.call0\.pt"):
        TensorSaver(tmp_path).save("big", torch.ones(100_000))
    assert os.listdir(tmp_path) == []


def test_a_removed_folder_is_an_error_that_counts_the_files(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path / "out")
    with (  # noqa: PT012
        # Two threads write: any of the three may be the first to fail.
        pytest.raises(OSError, match=r"3 files could not be saved.*manual\.a\.call[012]\.pt"),
        DebugContext(saver),
    ):
        shutil.rmtree(tmp_path / "out")
        for _ in range(3):
            spy_save("a", torch.ones(10))
    (tmp_path / "out").mkdir()
    with DebugContext(saver):  # told once; what comes is saved again
        spy_save("a", torch.ones(10))
    assert all_load(tmp_path / "out") == 1


def test_a_folder_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        TensorSaver(tmp_path / "file" / "out")


@pytest.mark.parametrize("size", [1, 120])  # MB; a long file is written while it is being copied
def test_a_small_file_system_that_fills_up_keeps_what_it_has(tmp_path: Path, size: int) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("mount is refused here; the test with RLIMIT_FSIZE shows the same")
    try:
        with (  # noqa: PT012
            pytest.raises(OSError, match=r"manual\.t\.call\d\.pt: No space left"),
            DebugContext(TensorSaver(tmp_path)),
        ):
            for _ in range(8):
                spy_save("t", torch.ones(50_000 * size))
        assert 3 <= all_load(tmp_path) <= 5  # two may be in the making when it fills up
        assert not list(tmp_path.glob(".*"))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_read_only_file_system_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mount is refused here; the removed folder shows the same")
    try:
        saver = TensorSaver(tmp_path)
        saver.save("before", torch.ones(10))
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)
        with (
            pytest.raises(OSError, match=r"manual\.a\.call0\.pt: Read-only file system"),
            DebugContext(saver),
        ):
            spy_save("a", torch.ones(10))
        assert os.listdir(tmp_path) == ["before.call0.pt"]
        assert all_load(tmp_path) == 1
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


READ_ONLY = """
import os, sys, torch
from tensortap.spy import DebugContext, TensorSaver, spy_save
saver = TensorSaver(sys.argv[1])
os.chmod(sys.argv[1], 0o555)
if os.getuid() == 0:
    os.setuid(65534)
try:
    with DebugContext(saver):
        spy_save("a", torch.ones(10))
except OSError as error:
    print(error)
"""


def test_a_folder_one_may_not_write_to_is_named(tmp_path: Path) -> None:
    done = forked(READ_ONLY, tmp_path, str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "out/manual.a.call0.pt: Permission denied" in done.stdout
    assert os.listdir(tmp_path / "out") == []


def test_the_programs_own_error_goes_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saver = TensorSaver(tmp_path / "out")
    with pytest.raises(ZeroDivisionError), DebugContext(saver):  # noqa: PT012
        shutil.rmtree(tmp_path / "out")
        spy_save("a", torch.ones(10))
        raise ZeroDivisionError
    assert "manual.a.call0.pt" in caplog.text


KILLED = """
import sys, torch
from tensortap.spy import DebugContext, TensorSaver, spy_save
t = torch.ones(200_000)
with DebugContext(TensorSaver(sys.argv[1])):
    print("on", flush=True)
    for i in range(100_000):
        spy_save(f"t{i % 20}", t)
"""


def test_after_kill_9_every_file_loads(tmp_path: Path) -> None:
    with started(KILLED, tmp_path, str(tmp_path)) as child:
        said_first(child)
        wait_for(lambda: list(tmp_path.glob("*.pt")), "the first file")
        time.sleep(0.1)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert all_load(tmp_path) > 0


def test_a_large_tensor_that_does_not_fit_is_named_too(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    with (  # noqa: PT012
        files_of_at_most(20 << 20),
        pytest.raises(OSError, match=r"2 files could not be saved.*manual\.(big|huge)\.call0\.pt"),
        DebugContext(saver),
    ):
        spy_save("huge", torch.ones(10 << 20))  # beyond what may wait: written at once
        spy_save("big", torch.ones(6 << 20))  # copied while it is written
        spy_save("fits", torch.ones(4 << 20))
    assert os.listdir(tmp_path) == ["manual.fits.call0.pt"]
    assert torch.equal(torch.load(tmp_path / "manual.fits.call0.pt"), torch.ones(4 << 20))


def test_no_more_than_64_mb_of_copies_wait_by_default(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    t = torch.ones(5 << 18)
    most = 0
    with DebugContext(saver):
        for _ in range(30):
            spy_save("t", t)
            most = max(most, saver._files.held)
    assert 5 << 20 < most <= 64 << 20
    assert all_load(tmp_path) == 30


def test_memory_is_given_back_when_nothing_comes(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)

    def is_held() -> bool:
        with DebugContext(saver):
            spy_save("t", torch.ones(1 << 20))
        return saver._files.held > 4 << 20

    wait_for(is_held, "a copy that is kept for the next")
    wait_for(lambda: saver._files.held == 0, "the memory to be given back")


def test_memory_of_copies_is_bounded(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path, max_bytes=4 << 20)
    t = torch.ones(1 << 18)
    with DebugContext(saver):
        for _ in range(40):
            spy_save("t", t)
            assert saver._files.held <= 4 << 20
    assert all_load(tmp_path) == 40


def test_a_forked_child_saves_on_its_own(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    t = torch.ones(300_000)
    with DebugContext(saver):
        for i in range(10):
            spy_save("parent", t)
            pid = os.fork()
            if pid == 0:
                signal.alarm(100)
                spy_save(f"child{i}", t)
                os._exit(0)  # without leaving the context
            assert os.waitpid(pid, 0)[1] == 0
    assert all_load(tmp_path) == 20


def test_a_forked_child_saves_into_the_run_too(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path, format="run")
    with DebugContext(saver):
        spy_save("parent", torch.ones(2))
        pid = os.fork()
        if pid == 0:
            signal.alarm(100)
            spy_save("child", torch.ones(2))
            saver.flush()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    saver.close()
    with tt.open(tmp_path) as run:
        assert sorted(run.names()) == ["manual.child", "manual.parent"]


def test_what_was_begun_is_on_disk_when_the_program_ends(tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "from tensortap.spy import *\n"
        "DebugContext(TensorSaver(sys.argv[1])).__enter__()\n"
        "for i in range(20): spy_save('t', torch.ones(100_000))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert all_load(tmp_path) == 20
